// Usage: node ratios.mjs DIRECTORY. Prints what `peers` measured as a table, with the peers' multiples of our figure.
// Pincer was measured before and after the peers: the slower run counts, so that a noisy minute cannot flatter us.
import { readFileSync } from "node:fs";
import { join } from "node:path";

const load = (name) => JSON.parse(readFileSync(join(process.argv[2], `${name}.json`), "utf8"));
const [first, second, openclaw, monty] = ["pincer", "again", "openclaw", "monty"].map(load);
const ours = first.fresh.p50 > second.fresh.p50 ? first : second;

const ms = (value) => (value === undefined ? "" : value < 10 ? `${value.toFixed(3)} ms` : `${value.toFixed(1)} ms`);
const size = (value) => (value === undefined ? "" : `${value.toLocaleString("en")} B`);
const times = (theirs, own) => (theirs === undefined ? "" : ` (${(theirs / own).toFixed(theirs / own < 10 ? 1 : 0)}×)`);
const rows = [
  ["first cell of a process", "firstMs", ms],
  ["fresh cell to result, p50", "fresh.p50", ms],
  ["fresh cell to result, p95", "fresh.p95", ms],
  ["run and suspend, p50", "suspend.p50", ms],
  ["restore and continue, p50", "resume.p50", ms],
  ["a suspended cell", "suspendedBytes", size],
  ["resident", "rssBytes", size],
];
const at = (report, path) => path.split(".").reduce((value, key) => value?.[key], report);
console.log("| | Pincer | OpenClaw 2026.9.6 | monty 1.4 |\n|---|---|---|---|");
for (const [name, path, show] of rows) {
  const own = at(ours, path);
  const cells = [openclaw, monty].map((peer) => show(at(peer, path)) + times(at(peer, path), own));
  console.log(`| ${name} | **${show(own)}** | ${cells.join(" | ")} |`);
}
console.log(`\nPincer alone: park p50 ${ms(ours.park.p50)}, one request ${ours.perCall.toFixed(1)} µs, ` +
  `${Math.round(ours.cellsPerSecond).toLocaleString("en")} fresh cells/s on all cores, ` +
  `${size(ours.heldPer1000)} for 1,000 suspended cells.`);
