// The official clients of OpenAI and Anthropic, each against the scripted model server.
import { writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { isDeepStrictEqual } from "node:util";
import { scripted } from "../binaries.mjs";
import { withFolder } from "../folder.mjs";
import { MODEL_CLIENTS } from "../install.mjs";
import { listen, run } from "../processes.mjs";
import { checks, MODELS } from "./checks.mjs";

const here = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "clients", "models");

/** Fields that a client leaves out, leaves empty or sets to null are the same to us; below the first level, all are told. */
const tidy = (value) => {
  const isEmpty = (field) => field === undefined || field === null || field === "" || (Array.isArray(field) && field.length === 0);
  const fields = Object.entries(JSON.parse(JSON.stringify(value)));
  return Object.fromEntries(fields.filter(([, field]) => !isEmpty(field)));
};

/** Complaints can be long, and end with what they are about. */
const shown = (value) => {
  const text = JSON.stringify(tidy(value));
  return text.length > 2000 ? `… ${text.slice(-2000)}` : text;
};

async function inFormat(name, client, format) {
  console.log(`== ${name}: ${format}`);
  const table = checks(format, name);
  const { code, stdout, stderr } = await withFolder(async (folder) => {
    const script = join(folder, "script.json5");
    writeFileSync(script, JSON.stringify({ models: MODELS, replies: table.flatMap(({ replies }) => replies) }));
    const server = await listen([await scripted(), script]);
    // A client prints a line of JSON for each thing that it is to ask.
    const asks = JSON.stringify(table.map(({ ask }) => ask));
    try {
      return await run([...client.command, format, server.origin, asks], {
        cwd: folder,
        env: { ...process.env, ...client.env },
        timeout: 120_000,
      });
    } finally {
      await server.stop();
    }
  });
  const lines = stdout.split("\n").filter((line) => line !== "");
  let wrong = 0;
  for (const [at, { what, expected }] of table.entries()) {
    const found = lines[at] === undefined ? { error: "no answer" } : JSON.parse(lines[at]);
    const good = isDeepStrictEqual(tidy(found), tidy(expected));
    console.log(`${good ? "ok" : "WRONG"}: ${what}`);
    if (!good) console.log(`  expected ${shown(expected)}\n  found    ${shown(found)}`);
    wrong += good ? 0 : 1;
  }
  // Warnings of a client are complaints about the server.
  const quiet = code === 0 && stderr === "" && lines.length === table.length;
  console.log(`${quiet ? "ok" : "WRONG"}: ends without a complaint`);
  if (!quiet) console.log(`  exit code ${code}, ${lines.length} lines\n${stderr.trimEnd()}`);
  return wrong + (quiet ? 0 : 1);
}

export const official = {
  names: Object.keys(MODEL_CLIENTS),
  async check(name) {
    const { formats, install } = MODEL_CLIENTS[name];
    const client = await install(here);
    let wrong = 0;
    for (const format of formats) wrong += await inFormat(name, client, format);
    return wrong;
  },
};
