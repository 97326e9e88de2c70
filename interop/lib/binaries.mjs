// Our own binaries: those that the environment names, or else built.
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { run } from "./processes.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "..", "..");
const target = resolve(root, process.env.CARGO_TARGET_DIR || "target");
const done = new Map();

async function build(variable, name, args) {
  if (process.env[variable]) return resolve(process.env[variable]);
  console.error(`building ${name} …`);
  const { code, stderr } = await run(["cargo", "build", "--locked", "--quiet", ...args], { cwd: root, timeout: 3_600_000 });
  if (code !== 0) throw new Error(`${name} could not be built:\n${stderr}`);
  return join(target, args.includes("--release") ? "release" : "debug", name);
}

/** Builds each once in a run. */
const built = (variable, name, args) => {
  if (!done.has(name)) done.set(name, build(variable, name, args));
  return done.get(name);
};

export const pincer = () => built("PINCER_BIN", "pincer", ["--release", "-p", "pincer"]);
export const fixture = () => built("FIXTURE_BIN", "mcp-fixture", ["-p", "pincer-testkit"]);
export const liar = () => built("LIAR_BIN", "mcp-liar", ["-p", "pincer-testkit"]);
export const scripted = () => built("SCRIPTED_BIN", "scripted-model", ["-p", "pincer-scripted"]);
export const ask = () => built("ASK_BIN", "examples/ask", ["-p", "pincer-model", "--example", "ask"]);
export const client = () => built("CLIENT_BIN", "mcp-client", ["-p", "pincer-testkit"]);
