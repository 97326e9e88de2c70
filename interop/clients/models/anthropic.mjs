// The official Anthropic client for Node.js.
import { askAll, QUESTION, sdk, tools, url } from "./ask.mjs";

const { Anthropic } = sdk("@anthropic-ai/sdk");
const client = (maxRetries) => new Anthropic({ baseURL: url, apiKey: "test", maxRetries });

const request = {
  model: "scripted",
  max_tokens: 1000,
  messages: [{ role: "user", content: QUESTION }],
  tools: tools((name, description, input_schema) => ({ name, description, input_schema })),
};

function report({ content, stop_reason, usage }) {
  const joined = (type, key) => content.filter((block) => block.type === type).map((block) => block[key]).join("");
  return {
    thinking: joined("thinking", "thinking"),
    seal: joined("thinking", "signature") + joined("redacted_thinking", "data"),
    text: joined("text", "text"),
    calls: content.filter(({ type }) => type === "tool_use").map(({ id, name, input }) => ({ id, name, arguments: input })),
    usage: {
      input: usage.input_tokens,
      cacheRead: usage.cache_read_input_tokens,
      cacheWrite: usage.cache_creation_input_tokens,
      output: usage.output_tokens,
      thinking: usage.output_tokens_details.thinking_tokens,
    },
    stop: stop_reason,
  };
}

async function stream(retries) {
  const stream = client(retries).messages.stream(request);
  let text = "";
  stream.on("text", (delta) => (text += delta));
  const found = report(await stream.finalMessage());
  if (text !== found.text) throw new Error(`deltas are ${text}, not ${found.text}`);
  return found;
}

await askAll(
  {
    stream: () => stream(0),
    retry: () => stream(2),
    whole: async () => report(await client(0).messages.create(request)),
    models: async () => ({ models: (await client(0).models.list()).data.map(({ id }) => id) }),
  },
  (error) => error.error?.error,
);
