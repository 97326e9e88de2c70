// Checks that every dependency comes from the registry and has a licence on the list in deny.toml. Works offline.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";

const allowed = new Set(/allow = \[([^\]]*)\]/.exec(readFileSync("deny.toml", "utf8"))[1].match(/"[^"]+"/g).map((s) => s.slice(1, -1)));
const metadata = execFileSync("cargo", ["metadata", "--locked", "--format-version", "1"], { maxBuffer: 1 << 28 });
const wrong = [];
// `A OR B` needs one of them, `A AND B` both; parentheses do not occur around a mixture of both in practice.
const fits = (licence) =>
  licence.replace(/[()]/g, "").split(/ AND /).every((part) => part.split(/ OR |\//).some((name) => allowed.has(name.trim())));
const { packages } = JSON.parse(metadata);
for (const { name, version, license, source } of packages) {
  if (source !== null && !source.startsWith("registry+")) wrong.push(`${name} ${version} does not come from the registry: ${source}`);
  if (license === null || !fits(license)) wrong.push(`${name} ${version} has the licence ${license}, which is not on the list`);
}
if (wrong.length > 0) {
  console.error(wrong.join("\n"));
  process.exit(1);
}
console.log(`${packages.length} packages, all with a licence on the list`);
