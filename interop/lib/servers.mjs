// Servers that others wrote: that each starts and lists the tools it is known for.
import { execFileSync } from "node:child_process";
import { SERVERS } from "./install.mjs";
import { withFolder } from "./folder.mjs";
import { start } from "./processes.mjs";
import { table } from "./table.mjs";

const HELLO = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "interop", version: "1" } };

/** Says hello to a server on its standard input and output and returns who it is and its tools. */
async function met(command, env) {
  const process_ = start(command, { stdin: "pipe", env: { ...process.env, ...env } });
  const messages = [];
  const lines = () => process_.stdout.split("\n").slice(0, -1);
  const send = (message) => process_.child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  const answer = async (id) => {
    for (const deadline = Date.now() + 60_000; Date.now() < deadline; ) {
      for (const line of lines().slice(messages.length)) messages.push(JSON.parse(line));
      const found = messages.find((message) => message.id === id && !message.method);
      if (found?.error) throw new Error(found.error.message);
      if (found) return found.result;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    throw new Error(`no answer\n${process_.stderr}`);
  };
  try {
    send({ id: 1, method: "initialize", params: HELLO });
    const { serverInfo } = await answer(1);
    send({ method: "notifications/initialized" });
    send({ id: 2, method: "tools/list" });
    return { serverInfo, tools: (await answer(2)).tools };
  } finally {
    await process_.stop();
  }
}

export async function servers(names) {
  const rows = [];
  let wrong = 0;
  for (const name of names.length > 0 ? names : Object.keys(SERVERS)) {
    if (!(name in SERVERS)) throw new Error(`no such server: ${name}. There are ${Object.keys(SERVERS).join(", ")}.`);
    const { command, env = () => ({}), tools: count } = SERVERS[name];
    await withFolder(async (folder) => {
      execFileSync("git", ["init", "--quiet", folder]);
      try {
        const { serverInfo, tools } = await met(await command(folder), env(folder));
        if (tools.length !== count) wrong += 1;
        rows.push([name, serverInfo.name, serverInfo.version, tools.length, count]);
      } catch (error) {
        wrong += 1;
        rows.push([name, error.message.split("\n")[0], "", "", count]);
      }
    });
  }
  console.log(table(["server", "name", "version", "tools", "expected"], rows));
  return wrong;
}
