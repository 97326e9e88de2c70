// Our own adapters for models, against a real server: llama.cpp's, with a tiny model.
import { isDeepStrictEqual } from "node:util";
import { ask } from "../binaries.mjs";
import { MODEL_SERVERS } from "../install.mjs";
import { listen, run } from "../processes.mjs";

/** As `servers/llamacpp.py` has them. */
const [MODEL, WINDOW] = ["smollm2", 512];

/** The formats by their name in a config: where its base address is, and the reason that the server gives at the limit of tokens. */
const FORMATS = {
  "openai-completions": { base: "/v1", atLimit: "length" },
  // It says `completed` there, which an adapter cannot tell from the end.
  "openai-responses": { base: "/v1", atLimit: "end" },
  "anthropic-messages": { base: "", atLimit: "length" },
};

const isReply = ({ events, end }) => end?.end === "reply" && end.text > 0 && events.began === 1 && events.text > 0 && end.usage.output > 0;
const prompt = ({ end }) => end.usage.input + end.usage.cacheRead + end.usage.cacheWrite;
const isMissing = ([{ end }]) => end.kind === "not_found" && end.status === 404;

/**
 * What is asked with which options, and what has to hold of the turns, the format and the server's log meanwhile. A turn has the
 * events by kind and count, and the end. `at` is a path for the base address.
 */
const CHECKS = [
  {
    what: "a reply is streamed up to its end",
    options: ["--max-tokens", "100"],
    holds: ([turn]) => isReply(turn) && turn.events.text > 3 && turn.end.stop === "end" && turn.end.hasId,
  },
  {
    what: "a reply stops at the most tokens",
    options: ["--max-tokens", "4"],
    holds: ([turn], { atLimit }) => isReply(turn) && turn.end.stop === atLimit && turn.end.usage.output === 4,
  },
  {
    what: "a reply is taken back as part of the conversation",
    options: ["--max-tokens", "20", "--turns", "2"],
    holds: ([first, second]) => isReply(first) && isReply(second) && prompt(second) > prompt(first) + first.end.usage.output,
  },
  {
    what: "a cancelled reply closes its connection, and the next one comes",
    options: ["--prompt", "Tell me a long story.", "--max-tokens", "100", "--cancel-after", "4", "--turns", "2"],
    // The server has one slot: the second request gets it because the first one was cancelled.
    holds: ([first, second], _, log) => first.end.end === "cancelled" && isReply(second) && /cancel task[^]*launch_slot/.test(log),
  },
  {
    what: "a prompt beyond the window is an overflow, with both numbers",
    options: ["--repeat-prompt", "200"],
    holds: ([{ end }]) => end.kind === "context_overflow" && end.status === 400 && end.limit === WINDOW && end.used > WINDOW,
  },
  {
    what: "the server lists its models",
    options: ["--list"],
    holds: ([{ end }]) => isDeepStrictEqual(end.models, [MODEL]),
  },
  { what: "a wrong address is not found", at: "/nowhere", options: [], holds: isMissing },
  { what: "a wrong address has no list of models", at: "/nowhere", options: ["--list"], holds: isMissing },
];

/** Turns, from the lines that `ask --json` prints: some for the kinds of events, then one for the end. */
function turns(stdout) {
  const found = [];
  let events = {};
  for (const line of stdout.split("\n").filter((line) => line !== "")) {
    const { event, count, ...end } = JSON.parse(line);
    if (event !== undefined) {
      events[event] = count;
    } else {
      found.push({ events, end });
      events = {};
    }
  }
  return found;
}

async function holds({ at, options, holds }, server, api) {
  const format = FORMATS[api];
  const logged = server.stderr.length;
  const address = `${server.origin}${at ?? format.base}`;
  const { code, stdout, stderr } = await run([await ask(), address, MODEL, "--api", api, "--json", ...options], { timeout: 120_000 });
  let good;
  try {
    const found = turns(stdout);
    const isFailure = found.at(-1).end.end === "error";
    good = stderr === "" && code === (isFailure ? 1 : 0) && holds(found, format, server.stderr.slice(logged));
  } catch {
    // A turn or a member that has to be there is not.
    good = false;
  }
  return good ? undefined : `exit code ${code}\n${stdout}${stderr}`;
}

export const real = {
  names: Object.keys(MODEL_SERVERS),
  async check(name) {
    const server = await listen(await MODEL_SERVERS[name]());
    let wrong = 0;
    try {
      for (const api of Object.keys(FORMATS)) {
        console.log(`== ${name}: ${api}`);
        for (const check of CHECKS) {
          const complaint = await holds(check, server, api);
          console.log(`${complaint === undefined ? "ok" : "WRONG"}: ${check.what}`);
          if (complaint !== undefined) console.log(`  ${complaint.trimEnd().replaceAll("\n", "\n  ")}`);
          wrong += complaint === undefined ? 0 : 1;
        }
      }
    } finally {
      await server.stop();
    }
    return wrong;
  },
};
