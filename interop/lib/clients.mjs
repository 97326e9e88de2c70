// Clients that others wrote, each against `pincer mcp serve`.
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { pincer } from "./binaries.mjs";
import { withFolder } from "./folder.mjs";
import { CLIENTS, inspector } from "./install.mjs";
import { run } from "./processes.mjs";

const here = join(dirname(fileURLToPath(import.meta.url)), "..", "clients");

const CALL = ["--method", "tools/call", "--tool-name", "exec", "--tool-arg", "code=return 6 * 7"];
/** What the Inspector is asked, and what has to be in its answer. */
const QUESTIONS = [
  [["--method", "tools/list", "--strict"], (answer) => /"exec"[^]*"wait"/.test(answer)],
  [CALL, (answer) => /"completed"[^]*42|42[^]*"completed"/.test(answer)],
  [[...CALL, "--load", "--load-requests", "200", "--load-concurrency", "8", "--format", "json"], carried],
];

/** Whether a load went through without a single error. */
function carried(answer) {
  const { result } = JSON.parse(answer);
  const { requests, ok, toolErrors, errors, throughput, latencyMs } = result;
  console.log(`${requests} calls, ${Math.round(throughput)}/s, median ${latencyMs.p50} ms, 99% within ${latencyMs.p99} ms`);
  return requests === 200 && ok === 200 && toolErrors === 0 && errors === 0;
}

export async function clients(names) {
  const known = [...Object.keys(CLIENTS), "inspector"];
  let wrong = 0;
  for (const name of names.length > 0 ? names : known) {
    if (!known.includes(name)) throw new Error(`no such client: ${name}. There are ${known.join(", ")}.`);
    console.log(`== ${name}`);
    wrong += await withFolder(async (folder) => {
      const workspace = join(folder, "workspace");
      mkdirSync(workspace);
      const config = join(folder, "pincer.json5");
      writeFileSync(config, "{}");
      // Runs outlive a process, so what they are kept in has to outlive it too.
      const ours = { PINCER_CONFIG: config, PINCER_STATE_DIR: join(folder, "state") };
      const server = [await pincer(), "mcp", "serve"];
      return name === "inspector" ? inspected(server, ours, workspace) : driven(name, server, ours, workspace);
    });
  }
  return wrong;
}

async function driven(name, server, ours, cwd) {
  const client = await CLIENTS[name](here);
  const env = { ...process.env, ...ours, ...client.env };
  const { code, stdout, stderr } = await run([...client.command, ...server], { cwd, env, timeout: 120_000 });
  process.stdout.write(stdout);
  if (code !== 0) console.log(stderr.trimEnd());
  return code === 0 ? 0 : 1;
}

async function inspected(server, ours, cwd) {
  const variables = Object.entries(ours).flatMap(([name, value]) => ["-e", `${name}=${value}`]);
  let wrong = 0;
  for (const [question, answer] of QUESTIONS) {
    const command = [...(await inspector()), ...variables, ...server, ...question];
    // It would keep a catalog in the home folder.
    const env = { ...process.env, MCP_CATALOG_PATH: `${cwd}.catalog.json` };
    const { code, stdout, stderr } = await run(command, { cwd, env, timeout: 120_000 });
    const good = code === 0 && answer(stdout);
    console.log(`${good ? "ok" : "WRONG"}: ${question.join(" ")}`);
    if (!good) console.log(stdout + stderr);
    wrong += good ? 0 : 1;
  }
  return wrong;
}
