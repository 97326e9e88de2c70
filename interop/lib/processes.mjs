// Child processes, each the leader of a group, all of which end with us.
import { spawn } from "node:child_process";

const running = new Set();

const signal = (child, name) => {
  try {
    process.kill(-child.pid, name);
  } catch {
    // It is gone already.
  }
};

/** Starts `[program, ...args]`. What it writes is collected; `stop` ends it and all that it started. */
export function start([program, ...args], options = {}) {
  const child = spawn(program, args, { ...options, detached: true, stdio: [options.stdin ?? "ignore", "pipe", "pipe"] });
  const process_ = { child, stdout: "", stderr: "" };
  running.add(process_);
  child.stdout.setEncoding("utf8").on("data", (text) => (process_.stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text) => (process_.stderr += text));
  process_.ended = new Promise((resolve) => {
    child.on("error", (error) => resolve({ code: null, error }));
    child.on("close", (code) => resolve({ code }));
  });
  process_.stop = async () => {
    signal(child, "SIGTERM");
    const killed = setTimeout(() => signal(child, "SIGKILL"), 3000);
    await process_.ended;
    clearTimeout(killed);
    // The leader may have left others behind.
    signal(child, "SIGKILL");
    running.delete(process_);
  };
  return process_;
}

/** Runs a command to its end. */
export async function run(command, { timeout = 600_000, ...options } = {}) {
  const process_ = start(command, options);
  let late = false;
  const timer = setTimeout(() => ((late = true), process_.stop()), timeout);
  const { code, error } = await process_.ended;
  clearTimeout(timer);
  await process_.stop();
  if (error) throw new Error(`${command[0]} could not be started: ${error.message}`);
  if (late) throw new Error(`${command.join(" ")} took longer than ${timeout / 1000} s`);
  return { code, stdout: process_.stdout, stderr: process_.stderr };
}

/** Starts a server that prints the address it listens at, on stdout or stderr, and waits for that line. */
export async function listen(command, options) {
  const process_ = start(command, options);
  const address = () => /(?:127\.0\.0\.1|localhost|\[::1\]):\d+/.exec(`${process_.stdout}\n${process_.stderr}`)?.[0];
  const deadline = Date.now() + 60_000;
  let over = false;
  process_.ended.then(() => (over = true));
  while (!address()) {
    if (over || Date.now() > deadline) {
      await process_.stop();
      throw new Error(`${command.join(" ")} did not say where it listens\n${process_.stderr}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  // Not a copy: what it writes goes on to be collected.
  return Object.assign(process_, { origin: `http://${address()}`, url: `http://${address()}/mcp` });
}

export const stopAll = () => Promise.all([...running].map((process_) => process_.stop()));

for (const name of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(name, async () => {
    await stopAll();
    process.exit(1);
  });
}
process.on("exit", () => running.forEach(({ child }) => signal(child, "SIGKILL")));
