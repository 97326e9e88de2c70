// A client of our own, as plain as can be: a line of JSON per message over standard input and output.
import { start } from "./processes.mjs";

/** What Pincer's own client can do. Servers show it other tools than a client that can do nothing. */
const HELLO = {
  protocolVersion: "2025-11-25",
  capabilities: { elicitation: { form: {}, url: {} } },
  clientInfo: { name: "interop", version: "1" },
};

/** Starts a server, greets it, and gives `use` what it said and `ask(method, params)`. The server ends with `use`. */
export async function connected(command, options, use) {
  const process_ = start(command, { ...options, stdin: "pipe" });
  const answers = new Map();
  let [read, last] = [0, 0];
  const send = (message) => process_.child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  const listen = () => {
    for (let end; (end = process_.stdout.indexOf("\n", read)) >= 0; read = end + 1) {
      const message = JSON.parse(process_.stdout.slice(read, end));
      if (message.method && message.id !== undefined) {
        send({ id: message.id, error: { code: -32601, message: "not here" } });
      } else if (!message.method) {
        answers.set(message.id, message);
      }
    }
  };
  const ask = async (method, params = {}) => {
    const id = ++last;
    send({ id, method, params });
    for (const deadline = Date.now() + 60_000; Date.now() < deadline; await new Promise((go) => setTimeout(go, 10))) {
      listen();
      const { error, result } = answers.get(id) ?? {};
      if (error) throw new Error(error.message);
      if (result) return result;
      if (process_.child.exitCode !== null) break;
    }
    throw new Error(`no answer to ${method}\n${process_.stderr}`);
  };
  // Whoever writes to a server that has ended learns of it from the missing answer.
  process_.child.stdin.on("error", () => {});
  try {
    const hello = await ask("initialize", HELLO);
    send({ method: "notifications/initialized" });
    return await use(hello, ask);
  } finally {
    await process_.stop();
  }
}

/** Who a server is, and all its tools. */
export const met = (command, options) =>
  connected(command, options, async ({ serverInfo }, ask) => {
    const tools = [];
    let cursor;
    do {
      const page = await ask("tools/list", cursor ? { cursor } : {});
      tools.push(...page.tools);
      cursor = page.nextCursor;
    } while (cursor);
    return { serverInfo, tools };
  });
