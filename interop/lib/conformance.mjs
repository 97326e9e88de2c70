// The official conformance suite: against the test server itself, against Pincer in front of it, and against Pincer's client.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { compare, expected } from "./baseline.mjs";
import { client, fixture, pincer } from "./binaries.mjs";
import { withFolder } from "./folder.mjs";
import { listen } from "./processes.mjs";
import { runSuite } from "./suite.mjs";
import { table } from "./table.mjs";

const OLD = "0.1.16";
const NEW = "0.2.0-alpha.12";
/** The old suite knows no other revision; for a client it has to be told that all of it is meant. */
const RUNS = [
  { suite: OLD, revision: "2025-11-25", args: [], clientArgs: ["--suite", "all"] },
  { suite: NEW, revision: "2025-11-25", args: ["--requirements", "2025-11-25"] },
  { suite: NEW, revision: "2026-07-28", args: ["--requirements", "2026-07-28"] },
];

const direct = async () => [await listen([await fixture(), "http", "127.0.0.1:0"])];

/** Pincer in front of one server, with nothing of its own to offer. */
async function gateway(folder, server) {
  const config = join(folder, "pincer.json5");
  writeFileSync(config, JSON.stringify({ mcp: { servers: { fixture: server } } }));
  const command = [await pincer(), "mcp", "serve", "--http", "127.0.0.1:0", "--surface", "direct", "--config", config];
  return listen(command, { cwd: folder });
}

/** Each starts what it needs and returns that, the server to test first. */
const TARGETS = {
  fixture: direct,
  "gateway-stdio": async (folder) => [await gateway(folder, { command: await fixture(), args: ["stdio"] })],
  "gateway-http": async (folder) => {
    const [upstream] = await direct();
    return [await gateway(folder, { url: upstream.url }), upstream];
  },
};

/** Not a server: the suite starts it, for each scenario anew. */
const CLIENT = "client";

/** A new server for each run, so that none sees what another left behind. */
const checked = (target, { suite, args, clientArgs = args }) =>
  withFolder(async (folder) => {
    if (target === CLIENT) return runSuite(suite, ["client", "--command", await client()], clientArgs);
    const processes = await TARGETS[target](folder);
    try {
      return await runSuite(suite, ["server", "--url", processes[0].url], args);
    } finally {
      for (const process_ of processes) await process_.stop();
    }
  });

export async function conformance(names) {
  const targets = names.length > 0 ? names : ["fixture"];
  const known = [...Object.keys(TARGETS), CLIENT];
  const unknown = targets.filter((name) => !known.includes(name));
  if (unknown.length > 0) throw new Error(`no such target: ${unknown}. There are ${known.join(", ")}.`);
  const rows = [];
  let wrong = 0;
  for (const target of targets) {
    for (const run of RUNS) {
      const name = `${run.suite} ${run.revision}`;
      const entries = expected(target, name);
      const result = compare(await checked(target, run), entries);
      for (const { scenario, id, status, message } of result.surprises) {
        console.log(`${target}, ${name}: ${status} ${scenario}:${id}\n    ${message}`);
      }
      for (const { scenario, id, where } of result.stale) {
        console.log(`${target}, ${name}: ${scenario}:${id} does not fail any more; remove ${where}`);
      }
      wrong += result.surprises.length + result.stale.length;
      const failed = result.surprises.length + result.expected.length;
      rows.push([target, run.suite, run.revision, result.passed, failed, result.expected.length]);
    }
  }
  console.log(`\n${table(["target", "suite", "revision", "passed", "failed", "expected"], rows)}`);
  return wrong;
}
