// Servers that others wrote: that each starts and lists the tools it is known for, and what programs do with them.
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Pincer, withServers } from "./behind.mjs";
import { SERVERS } from "./install.mjs";
import { judge, prelude, programs } from "./programs.mjs";
import { table } from "./table.mjs";
import { connected, met } from "./wire.mjs";

export async function servers(asked) {
  const names = asked.length > 0 ? asked : Object.keys(SERVERS);
  const unknown = names.filter((name) => !(name in SERVERS));
  if (unknown.length > 0) throw new Error(`no such server: ${unknown}. There are ${Object.keys(SERVERS).join(", ")}.`);
  return withServers(names, async (ours, entries, folder) => {
    let wrong = (await listed(ours, entries)) + (await used(ours, entries, folder));
    if ("filesystem" in entries) wrong += await told(entries, folder);
    if ("everything" in entries) wrong += await shown(ours, entries);
    return wrong;
  });
}

/** Who they are by our own plain client, and by `pincer mcp list`. */
async function listed(ours, entries) {
  const behind = new Map((await ours.json("mcp", "list", "--json")).map((server) => [server.name, server]));
  let wrong = 0;
  const rows = [];
  for (const [name, { command, args, env }] of Object.entries(entries)) {
    const { tools: count } = SERVERS[name];
    const { state, tools, lastError, server } = behind.get(name) ?? {};
    let plain = "";
    try {
      if (command) plain = (await met([command, ...args], { cwd: ours.cwd, env: { ...process.env, ...env } })).tools.length;
    } catch (error) {
      plain = error.message.split("\n")[0];
    }
    if (state !== "up" || tools !== count || (command && plain !== count)) wrong += 1;
    rows.push([name, server?.name ?? lastError ?? "", server?.version ?? "", plain, tools ?? state, count]);
  }
  console.log(`${table(["server", "name", "version", "plainly", "by Pincer", "expected"], rows)}\n`);
  return wrong;
}

/** Runs the programs of the table. */
async function used(ours, entries, folder) {
  let wrong = 0;
  for (const program of programs(Object.keys(entries))) {
    try {
      await tried(program, ours, entries, folder);
      console.log(`ok: ${program.what}`);
    } catch (error) {
      wrong += 1;
      console.log(`WRONG: ${program.what}\n${error.message}`);
    }
  }
  return wrong;
}

async function tried(program, ours, entries, folder) {
  const code = prelude(ours.cwd) + program.code;
  if (!program.pids) return judge(program, await ours.exec(code));
  const pids = join(folder, "pid");
  const { command, args, ...rest } = entries[program.pids];
  // The shell is replaced by the server, so this is the server's id.
  const told = { ...rest, command: "sh", args: ["-c", 'echo $$ >"$0"; exec "$@"', pids, command, ...args] };
  const its = await Pincer.with(mkdtempSync(join(folder, "own-")), { ...entries, [program.pids]: told });
  its.cwd = ours.cwd;
  const result = await its.exec(code, (ended) => program.meanwhile(ours.cwd, pids, ended));
  return judge(program, result, pids);
}

/** The filesystem server reaches the directory of its arguments, and only its `roots` change that. */
async function told({ filesystem: { args, ...rest } }, folder) {
  const cases = [
    { what: "a server keeps the directory it was started for", roots: undefined, reaches: "notes" },
    { what: "a server is told of its roots, seen from the config", roots: ["workspace"], reaches: "workspace" },
  ];
  let wrong = 0;
  for (const { what, roots, reaches } of cases) {
    const own = mkdtempSync(join(folder, "own-"));
    const at = Object.fromEntries(["notes", "workspace"].map((name) => [name, join(own, name)]));
    for (const [name, path] of Object.entries(at)) {
      mkdirSync(path);
      writeFileSync(join(path, "a.txt"), name);
    }
    const its = await Pincer.with(own, { filesystem: { ...rest, args: [...args.slice(0, -1), at.notes], roots } });
    const code = `
      const read = async (at) => (await MCP.filesystem.readTextFile({ path: at + "/a.txt" })).isError !== true;
      // It asks for roots after it has been greeted, and a call does not wait for that.
      unwrap(await MCP.filesystem.listAllowedDirectories({}));
      await new Promise((go) => setTimeout(go, 1000));
      return { notes: await read(${JSON.stringify(at.notes)}), workspace: await read(${JSON.stringify(at.workspace)}) };`;
    try {
      const { status, value, ...result } = await its.exec(code);
      assert.equal(status, "completed", JSON.stringify(result));
      assert.deepEqual(value, { notes: reaches === "notes", workspace: reaches === "workspace" });
      console.log(`ok: ${what}`);
    } catch (error) {
      wrong += 1;
      console.log(`WRONG: ${what}\n${error.message}`);
    }
  }
  return wrong;
}

/** An image that a program returns is an image for the client of `pincer mcp serve`, byte for byte. */
async function shown(ours, { everything }) {
  const picture = ({ content }) => content.find(({ type }) => type === "image");
  const env = { ...process.env, ...everything.env };
  const direct = connected([everything.command, ...everything.args], { env }, (_, ask) =>
    ask("tools/call", { name: "get-tiny-image", arguments: {} }),
  );
  const code = `return (await MCP.everything.getTinyImage()).content.find(({ type }) => type === "image")`;
  const through = connected([ours.program, "mcp", "serve"], { cwd: ours.cwd, env: ours.env }, (_, ask) =>
    ask("tools/call", { name: "exec", arguments: { code } }),
  );
  try {
    const [{ data, mimeType }, block] = [picture(await direct), picture(await through)];
    assert.ok(block, "there is no image in the result");
    assert.equal(block.mimeType, mimeType);
    assert.ok(Buffer.from(block.data, "base64").equals(Buffer.from(data, "base64")), "the bytes differ");
    console.log("ok: an image reaches the client of mcp serve");
    return 0;
  } catch (error) {
    console.log(`WRONG: an image reaches the client of mcp serve\n${error.message}`);
    return 1;
  }
}
