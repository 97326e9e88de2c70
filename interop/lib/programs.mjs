// Programs for code mode that use real servers, and what has to come of each.
import assert from "node:assert/strict";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";

/** Before each program: where the repository is. */
export const prelude = (at) => `const at = ${JSON.stringify(at)};\n`;

const completed = (result) => {
  assert.equal(result.status, "completed", JSON.stringify(result));
  return result.value;
};

/**
 * Each has the servers that it needs, its code, and `check`, which is given the result, or `value`, which the result has to have.
 * Those of `everything` are run over each of its transports.
 */
const TABLE = [
  {
    what: "one cell joins commits, files, rows and the time",
    servers: ["git", "filesystem", "sqlite", "time"],
    code: `
      const [log, listing, now] = await Promise.all([
        MCP.git.gitLog({ repo_path: at }),
        MCP.filesystem.listDirectory({ path: at }),
        MCP.time.getCurrentTime({ timezone: "UTC" }),
      ]);
      const messages = [...unwrap(log).matchAll(/Message: '?(add \\S+?)'?$/gm)].map((match) => match[1]);
      const names = [...unwrap(listing).content.matchAll(/\\[FILE\\] (\\S+\\.txt)/g)].map((match) => match[1]);
      const texts = await Promise.all(names.map((name) => MCP.filesystem.readTextFile({ path: at + "/" + name })));
      const quoted = (text) => "'" + text.replaceAll("'", "''") + "'";
      const sql = async (tool, query) => unwrap(await MCP.sqlite[tool]({ query }));
      await sql("createTable", "create table commits (message text)");
      await sql("createTable", "create table files (name text, body text)");
      const insert = (table, values) => sql("writeQuery", "insert into " + table + " values (" + values.map(quoted) + ")");
      await Promise.all([
        ...messages.map((message) => insert("commits", [message])),
        ...names.map((name, n) => insert("files", [name, unwrap(texts[n]).content])),
      ]);
      const rows = await sql("readQuery", \`
        select commits.message, length(files.body) as size from commits
        join files on commits.message = 'add ' || files.name order by size\`);
      return { rows, recent: Math.abs(Date.parse(unwrap(now).datetime) - Date.now()) < 60_000 };`,
    value: {
      rows: "[{'message': 'add one.txt', 'size': 4}, {'message': 'add two.txt', 'size': 8}, {'message': 'add three.txt', 'size': 18}]",
      recent: true,
    },
  },
  {
    what: "what was remembered is found again",
    servers: ["memory", "sequential-thinking"],
    code: `
      await MCP.memory.createEntities({ entities: [{ name: "Pincer", entityType: "tool", observations: ["has two claws"] }] });
      const thought = { thought: "first", nextThoughtNeeded: false, thoughtNumber: 1, totalThoughts: 1 };
      const [found, thinking] = await Promise.all([
        MCP.memory.searchNodes({ query: "claws" }),
        MCP.sequentialThinking.sequentialthinking(thought),
      ]);
      return [unwrap(found).entities.map(({ name }) => name), unwrap(thinking).thoughtNumber];`,
    value: [["Pincer"], 1],
  },
  {
    what: "fifty calls at once",
    servers: ["everything"],
    code: `
      const numbers = Array.from({ length: 50 }, (_, n) => n);
      const sums = await Promise.all(numbers.map((n) => MCP.everything.getSum({ a: n, b: 1000 })));
      return numbers.filter((n) => !unwrap(sums[n]).includes(String(n + 1000))).length;`,
    check: (result) => {
      assert.equal(completed(result), 0);
      assert.equal(result.telemetry.callCount, 50);
    },
  },
  {
    what: "resources and prompts",
    servers: ["everything"],
    code: `
      const { resources, prompts } = MCP.everything;
      const listed = (await resources.list()).resources;
      const document = await resources.read({ uri: listed[0].uri });
      const made = await resources.read({ uri: "demo://resource/dynamic/text/7" });
      const prompt = await prompts.get({ name: "args-prompt", arguments: { city: "Ghent" } });
      const ref = { type: "ref/prompt", name: "completable-prompt" };
      const { completion } = await prompts.complete({ ref, argument: { name: "department", value: "E" } });
      return {
        resources: listed.length,
        templates: (await resources.templates()).resourceTemplates.length,
        prompts: (await prompts.list()).prompts.length,
        document: document.contents[0].text.length > 0,
        made: made.contents[0].text.includes("7"),
        prompt: prompt.messages[0].content.text.includes("Ghent"),
        completed: completion.values,
      };`,
    value: { resources: 7, templates: 2, prompts: 4, document: true, made: true, prompt: true, completed: ["Engineering"] },
  },
  {
    what: "an image is a reference",
    servers: ["everything"],
    code: `return (await MCP.everything.getTinyImage()).content.find(({ type }) => type === "image");`,
    check: (result) => {
      const { ref, bytes, ...rest } = completed(result);
      assert.match(ref, /^blob:/);
      assert.ok(bytes > 1000);
      assert.deepEqual(rest, { type: "image", mimeType: "image/png" });
    },
  },
  {
    what: "an error of a tool resolves, and unwrap throws it",
    servers: ["filesystem"],
    code: `
      const result = await MCP.filesystem.readTextFile({ path: at + "/nowhere.txt" });
      try {
        unwrap(result);
      } catch (error) {
        return { isError: result.isError, thrown: error instanceof Error && error.message.includes("nowhere.txt") };
      }`,
    value: { isError: true, thrown: true },
  },
  {
    what: "a missing argument is an error before the call",
    servers: ["everything"],
    code: `return MCP.everything.getSum({ a: 1 }).catch(({ name, message }) => ({ name, message }));`,
    check: (result) => {
      const { name, message } = completed(result);
      assert.equal(name, "TypeError");
      assert.match(message, /getSum needs `b`/);
      assert.equal(result.telemetry.callCount, 0);
    },
  },
  {
    what: "a server that is killed is started again by the next call",
    servers: ["everything", "filesystem"],
    over: ["everything"],
    // The answer to the second call shows that the first one has arrived.
    code: `
      const before = MCP.everything.triggerLongRunningOperation({ duration: 60, steps: 2 }).catch((error) => error);
      await MCP.everything.echo({ message: "it is at work" });
      await MCP.filesystem.writeFile({ path: at + "/at-work", content: "" });
      const { code, effect } = await before;
      const after = unwrap(await MCP.everything.echo({ message: "hello again" }));
      return { lost: Boolean(code), effect, after };`,
    pids: "everything",
    meanwhile: async (at, pids, ended) => {
      await seen(join(at, "at-work"), ended);
      process.kill(Number(readFileSync(pids, "utf8").trim()), "SIGKILL");
      rmSync(pids);
    },
    check: (result, pids) => {
      // The tool says of itself that it only looks; that is not ours to repeat.
      assert.deepEqual(completed(result), { lost: true, effect: "unknown", after: "Echo: hello again" });
      assert.ok(existsSync(pids), "it was not started again");
    },
  },
];

/** Waits for a file, or for the end of what should write it. */
async function seen(file, ended) {
  let over = false;
  ended.then(() => (over = true));
  while (!existsSync(file) && !over) await new Promise((go) => setTimeout(go, 20));
}

/** The programs for these servers, with a variant for each transport of `everything`. */
export function programs(names) {
  const variants = TABLE.flatMap((row) => {
    if (!row.servers.includes("everything")) return [row];
    return (row.over ?? ["everything", "everything-http"]).map((server) => ({
      ...row,
      what: server === "everything" ? row.what : `${row.what} (${server})`,
      servers: row.servers.map((name) => (name === "everything" ? server : name)),
      code: server === "everything" ? row.code : row.code.replaceAll("MCP.everything", "MCP.everythingHttp"),
    }));
  });
  return variants.filter(({ servers }) => servers.every((name) => names.includes(name)));
}

/** Throws unless a result is what its program is for. */
export function judge({ value, check }, result, pids) {
  if (check) check(result, pids);
  else assert.deepEqual(completed(result), value);
}
