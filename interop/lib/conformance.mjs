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

/** What a server is asked that has none of the tools, resources and prompts that the suite looks for. */
const WITHOUT_FIXTURES = [
  "server-initialize",
  "server-session-lifecycle",
  "server-stateless",
  "ping",
  "logging-set-level",
  "tools-list",
  "resources-list",
  "prompts-list",
  "server-sse-multiple-streams",
  "dns-rebinding-protection",
  "caching",
  "http-header-validation",
  "input-required-result-unsupported-methods",
];

const direct = async () => [await listen([await fixture(), "http", "127.0.0.1:0"])];

/** Pincer in front of these servers. */
async function serve(folder, surface, servers) {
  const config = join(folder, "pincer.json5");
  writeFileSync(config, JSON.stringify({ mcp: { servers } }));
  const command = [await pincer(), "mcp", "serve", "--http", "127.0.0.1:0", "--surface", surface, "--config", config];
  return listen(command, { cwd: folder, env: { ...process.env, PINCER_STATE_DIR: join(folder, "state") } });
}

/** Each starts what it needs and returns that, the server to test first. */
const TARGETS = {
  fixture: direct,
  "gateway-stdio": async (folder) => {
    const server = { command: await fixture(), args: ["stdio"] };
    return [await serve(folder, "direct", { fixture: server })];
  },
  "gateway-http": async (folder) => {
    const [upstream] = await direct();
    return [await serve(folder, "direct", { fixture: { url: upstream.url } }), upstream];
  },
  code: async (folder) => [await serve(folder, "code", {})],
};

/** Scenarios that need no tools but those that are there, for a target that has only its own. */
const OWN = { code: WITHOUT_FIXTURES };

/** Not a server: the suite starts it, for each scenario anew. */
const CLIENT = "client";

/** A new server for each run, so that none sees what another left behind. */
const checked = (target, { suite, args, clientArgs = args }) =>
  withFolder(async (folder) => {
    if (target === CLIENT) return runSuite(suite, ["client", "--command", await client()], clientArgs);
    const processes = await TARGETS[target](folder);
    try {
      const checks = await runSuite(suite, ["server", "--url", processes[0].url], args);
      return OWN[target] ? checks.filter(({ scenario }) => OWN[target].includes(scenario)) : checks;
    } finally {
      for (const process_ of processes) await process_.stop();
    }
  });

export async function conformance(names) {
  const known = [...Object.keys(TARGETS), CLIENT];
  const targets = names.length > 0 ? names : known;
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
