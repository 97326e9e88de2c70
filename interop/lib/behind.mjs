// Pincer with servers behind it, for the time of one use.
import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pincer } from "./binaries.mjs";
import { withFolder } from "./folder.mjs";
import { SERVERS } from "./install.mjs";
import { listen, run, start } from "./processes.mjs";

/** The files of the repository; each is added by a commit that says so. */
export const FILES = { "one.txt": "one\n", "two.txt": "two two\n", "three.txt": "three three three\n" };

function repository(folder) {
  const who = ["-c", "user.name=interop", "-c", "user.email=interop@localhost"];
  const git = (...args) => execFileSync("git", ["-C", folder, ...who, ...args]);
  mkdirSync(folder);
  git("init", "--quiet");
  for (const [name, text] of Object.entries(FILES)) {
    writeFileSync(join(folder, name), text);
    git("add", name);
    git("commit", "--quiet", "--no-gpg-sign", "--message", `add ${name}`);
  }
}

/** Pincer with servers of its config: what it prints, what programs return, and its command as a server. */
export class Pincer {
  static async with(folder, servers, more = {}) {
    const ours = new Pincer();
    ours.program = await pincer();
    ours.cwd = join(folder, "workspace");
    mkdirSync(ours.cwd, { recursive: true });
    const config = join(folder, "pincer.json5");
    writeFileSync(config, JSON.stringify({ mcp: { servers }, ...more }));
    ours.env = { ...process.env, PINCER_CONFIG: config, PINCER_STATE_DIR: join(folder, "state") };
    return ours;
  }

  async json(...args) {
    const { stdout, stderr } = await run([this.program, ...args], { cwd: this.cwd, env: this.env, timeout: 180_000 });
    try {
      return JSON.parse(stdout);
    } catch {
      throw new Error(`pincer ${args[0]} printed no JSON:\n${stdout}${stderr}`);
    }
  }

  /** Runs a program and returns the whole result; `meanwhile` is called once it has been started. */
  async exec(code, meanwhile) {
    const command = [this.program, "exec", "--json", "--timeout-ms", "60000", "-e", code];
    const process_ = start(command, { cwd: this.cwd, env: this.env });
    const late = setTimeout(process_.stop, 120_000);
    try {
      await meanwhile?.(process_.ended);
      await process_.ended;
    } finally {
      clearTimeout(late);
      await process_.stop();
    }
    if (process_.stdout === "") throw new Error(`pincer exec printed nothing:\n${process_.stderr}`);
    return JSON.parse(process_.stdout);
  }
}

/** How a server is reached, as a config says it. Those of HTTP are started here. */
async function entry(name, at, started) {
  const { command, env = () => ({}), http } = SERVERS[name];
  const [program, ...args] = await command(at);
  if (!http) return { command: program, args, env: env(at) };
  started.push(await listen([program, ...args], { env: { ...process.env, ...env(at) } }));
  return { url: started.at(-1).url };
}

/** Gives `use` Pincer with these real servers behind it, the entries of its config, and a folder in which a repository is. */
export const withServers = (names, use, more) =>
  withFolder(async (folder) => {
    const at = join(folder, "workspace");
    repository(at);
    const started = [];
    try {
      const entries = {};
      for (const name of names) entries[name] = await entry(name, at, started);
      return await use(await Pincer.with(folder, entries, more), entries, folder);
    } finally {
      for (const process_ of started) await process_.stop();
    }
  });
