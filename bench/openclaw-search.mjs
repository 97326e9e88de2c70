// Usage: node openclaw-search.mjs PATH_TO_OPENCLAW_PACKAGE DATA_DIR
// Prints what the peer's own Tool Search finds for the questions of DATA_DIR: one line of JSON per set, mode and question, as
// `pincer bench search --beside FILE` reads it.
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [root, data] = process.argv.slice(2);
const dist = join(root, "dist");
// File names and exports of the bundle are made by its bundler, the class keeps its own.
const bundle = readdirSync(dist).filter((name) => name.endsWith(".mjs"))
  .find((name) => readFileSync(join(dist, name), "utf8").includes("ToolSearchRuntime = class"));
const { ToolSearchRuntime } = Object.fromEntries(
  Object.values(await import(pathToFileURL(join(dist, bundle)).href)).map((value) => [value?.name, value]),
);
const lines = (name) => readFileSync(join(data, name), "utf8").split("\n").filter((line) => line.trim()).map(JSON.parse);
const config = { enabled: true, mode: "tools", codeTimeoutMs: 10_000, searchDefaultLimit: 10, maxSearchLimit: 50 };
const sets = readdirSync(data).filter((name) => name.endsWith(".queries.jsonl")).map((name) => name.slice(0, -".queries.jsonl".length));

for (const set of sets.sort()) {
  const tools = lines(`${set}.tools.jsonl`);
  const questions = lines(`${set}.queries.jsonl`);
  // The peer reads the parameters of its own tools only.
  for (const [mode, source] of [["nd", "mcp"], ["ndp", "openclaw"]]) {
    const entries = tools.map(({ id, name, description, schema: parameters }) =>
      ({ id, source, sourceName: "bench", name, description, parameters, tool: { name, description, parameters } }));
    const catalogRef = { current: { entries, searchCount: 0, describeCount: 0, callCount: 0 } };
    const runtime = new ToolSearchRuntime({ catalogRef }, config);
    for (const { qid, query } of questions) {
      const found = (await runtime.search(query, { limit: 10 })).map(({ id }) => id);
      console.log(JSON.stringify({ set, mode, qid: qid ?? query, found }));
    }
  }
}
process.exit(0);
