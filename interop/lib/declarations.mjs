// The declarations that Pincer makes of servers' tools: that TypeScript takes them, and that no tool is missing.
import { readFileSync, writeFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { Pincer, withServers } from "./behind.mjs";
import { liar } from "./binaries.mjs";
import { withFolder } from "./folder.mjs";
import { SERVERS } from "./install.mjs";
import { table } from "./table.mjs";
import { checker } from "./typecheck.mjs";
import { met } from "./wire.mjs";

const LARGEST = { tools: { codeMode: { maxOutputBytes: 10_485_760 } } };
/** Servers of ours whose lists are as bad as lists get. */
const HOSTILE = ["names", "cycles", "bad-tools", "duplicates", "many"];
/** How many programs run at a time, and how many servers each asks. */
const AT_ONCE = 2;
const SERVERS_EACH = 10;

/** Without files, of the real servers and of hostile ones; with files, of all servers in them. */
export async function declarations(files) {
  const rows = [];
  let wrong = 0;
  const told = async (name, ours, expected) => {
    const found = await declared(ours, expected);
    wrong += found.wrong;
    rows.push([name, ...found.figures]);
  };
  if (files.length === 0) {
    const names = Object.keys(SERVERS).filter((name) => !SERVERS[name].http);
    await withServers(names, async (ours, entries) => told("real servers", ours, await plainly(ours, entries)), LARGEST);
    await withHostile((ours) => told("hostile servers", ours, new Map(HOSTILE.map((name) => [name, undefined]))));
  }
  for (const file of files) await withCatalog(resolve(file), (ours, expected) => told(basename(file), ours, expected));
  console.log(`\n${table(["from", "servers", "tools", "missing", "names twice", "bytes", "rejected alone", "together"], rows)}`);
  return wrong;
}

/** The tools of each server as it lists them itself. */
async function plainly(ours, entries) {
  const expected = new Map();
  for (const [name, { command, args, env }] of Object.entries(entries)) {
    const { tools } = await met([command, ...args], { cwd: ours.cwd, env: { ...process.env, ...env } });
    expected.set(name, new Set(tools.map((tool) => tool.name)));
  }
  return expected;
}

const withHostile = (use) =>
  withFolder(async (folder) => {
    const command = await liar();
    const servers = Object.fromEntries(HOSTILE.map((mode) => [mode, { command, args: [mode] }]));
    return use(await Pincer.with(folder, servers, LARGEST));
  });

/** Gives `use` Pincer with a server for each server in a file, and the names of its tools. */
const withCatalog = (file, use) =>
  withFolder(async (folder) => {
    const lines = readFileSync(file, "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line));
    const program = await liar();
    const [servers, expected, named] = [{}, new Map(), new Map()];
    for (const { server = "", name } of lines) {
      if (!named.has(server)) {
        const ours = configurable(server, expected);
        // A catalog of each: whoever starts one does not have to read all.
        const own = join(folder, `${ours}.jsonl`);
        const its = lines.filter((line) => (line.server ?? "") === server);
        writeFileSync(own, its.map((line) => `${JSON.stringify(line)}\n`).join(""));
        named.set(server, ours);
        expected.set(ours, new Set());
        servers[ours] = { command: program, args: ["catalog", own] };
      }
      expected.get(named.get(server)).add(name);
    }
    return use(await Pincer.with(folder, servers, LARGEST), expected);
  });

/** A name like that of a server, and no other's, which is an identifier already. */
function configurable(server, taken) {
  const plain = `s-${server}`.toLowerCase().replace(/[^a-z0-9]/g, "");
  let name = plain;
  for (let n = 2; taken.has(name); n += 1) name = `${plain}x${n}`;
  return name;
}

/** Reads everything of these servers and judges it. */
async function declared(ours, expected) {
  const check = await checker();
  const names = [...expected.keys()];
  const found = new Map();
  const waiting = [...names];
  const worker = async () => {
    while (waiting.length > 0) (await read(ours, waiting.splice(0, SERVERS_EACH))).forEach((its, name) => found.set(name, its));
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));

  let [wrong, tools, missing, twice, bytes] = [0, 0, 0, 0, 0];
  const complain = (text) => (wrong++, console.log(text));
  const alone = [];
  const together = {};
  for (const name of names) {
    const { identifier, text, listed } = found.get(name);
    const there = new Set(listed.map(({ mcpTool }) => mcpTool));
    const absent = [...(expected.get(name) ?? [])].filter((tool) => !there.has(tool));
    const extra = [...there].filter((tool) => expected.get(name) && !expected.get(name).has(tool));
    const repeated = listed.length - new Set(listed.map(({ method }) => method)).size;
    if (absent.length > 0) complain(`${name}: missing ${absent.map((tool) => JSON.stringify(tool)).join(", ")}`);
    if (extra.length > 0) complain(`${name}: nobody knows ${extra.join(", ")}`);
    if (repeated > 0) complain(`${name}: ${repeated} of its names are there twice`);
    [tools, missing, twice, bytes] = [tools + listed.length, missing + absent.length, twice + repeated, bytes + text.length];
    alone.push(...check({ [`/${identifier}.d.ts`]: text }));
    // What all begin with is there once when all are read together.
    const begin = text.search(/^(\/\/ .*\n)?declare namespace /m);
    together["/header.d.ts"] ??= text.slice(0, begin);
    together[`/${identifier}.d.ts`] = text.slice(begin);
  }
  const all = check(together);
  for (const { file, line, code, message, source } of alone.length > 0 ? alone : all) {
    complain(`${file}:${line} TS${code}: ${message}\n    ${source}`);
  }
  return { wrong, figures: [names.length, tools, missing, twice, bytes, alone.length, all.length] };
}

/** The declarations of servers by their names, and their tools as `$api()` knows them. */
async function read(ours, names) {
  const identifiers = names.map((name) => name.replace(/-(.)/g, (_, letter) => letter.toUpperCase()));
  // Only the servers that a program mentions are started, so it has to say which in its text.
  const each = identifiers.map((name) => `[await API.read("mcp/${name}.d.ts"), (await MCP.${name}.$api()).tools]`);
  const result = await ours.exec(`return [${each.join(",\n")}];`);
  if (result.status !== "completed") throw new Error(`${names}: ${JSON.stringify(result).slice(0, 1000)}`);
  const found = result.value.map(([text, tools], index) => {
    const listed = tools.filter(({ operation }) => operation === "tool");
    return [names[index], { identifier: identifiers[index], text, listed }];
  });
  return new Map(found);
}
