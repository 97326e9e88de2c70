// The official OpenAI client for Node.js.
import { askAll, format, QUESTION, sdk, tools, url } from "./ask.mjs";

const { OpenAI } = sdk("openai");
const client = (maxRetries) => new OpenAI({ baseURL: `${url}/v1`, apiKey: "test", maxRetries });

const parsed = (calls, of) => calls.map((call) => ({ ...of(call), arguments: JSON.parse(of(call).arguments) }));

const chat = {
  request: {
    model: "scripted",
    messages: [{ role: "user", content: QUESTION }],
    tools: tools((name, description, parameters) => ({ type: "function", function: { name, description, parameters } })),
  },
  report({ choices: [{ message, finish_reason }], usage }, thinking = message.reasoning_content) {
    const { cached_tokens: cacheRead, cache_write_tokens: cacheWrite } = usage.prompt_tokens_details;
    return {
      thinking,
      text: message.content,
      refusal: message.refusal,
      calls: parsed(message.tool_calls ?? [], ({ id, function: { name, arguments: arguments_ } }) => ({ id, name, arguments: arguments_ })),
      usage: {
        input: usage.prompt_tokens - cacheRead - cacheWrite,
        cacheRead,
        cacheWrite,
        output: usage.completion_tokens,
        thinking: usage.completion_tokens_details.reasoning_tokens,
      },
      stop: finish_reason,
    };
  },
  async stream(retries) {
    const stream = client(retries).chat.completions.stream({ ...this.request, stream_options: { include_usage: true } });
    let thinking = "";
    for await (const { choices } of stream) thinking += choices[0]?.delta.reasoning_content ?? "";
    return this.report(await stream.finalChatCompletion(), thinking);
  },
  async whole() {
    return this.report(await client(0).chat.completions.create(this.request));
  },
};

const responses = {
  request: {
    model: "scripted",
    input: QUESTION,
    store: false,
    include: ["reasoning.encrypted_content"],
    tools: tools((name, description, parameters) => ({ type: "function", name, description, parameters, strict: false })),
  },
  report({ output, output_text, status, incomplete_details, usage }) {
    const items = (type) => output.filter((item) => item.type === type);
    const [reasoning] = items("reasoning");
    const { cached_tokens: cacheRead, cache_write_tokens: cacheWrite } = usage.input_tokens_details;
    return {
      thinking: reasoning?.summary.map(({ text }) => text).join(""),
      seal: reasoning?.encrypted_content,
      text: output_text,
      refusal: items("message").flatMap(({ content }) => content).find(({ type }) => type === "refusal")?.refusal,
      calls: parsed(items("function_call"), ({ call_id, name, arguments: arguments_ }) => ({ id: call_id, name, arguments: arguments_ })),
      usage: {
        input: usage.input_tokens - cacheRead - cacheWrite,
        cacheRead,
        cacheWrite,
        output: usage.output_tokens,
        thinking: usage.output_tokens_details.reasoning_tokens,
      },
      stop: incomplete_details ? `${status}: ${incomplete_details.reason}` : status,
    };
  },
  async stream(retries) {
    const stream = client(retries).responses.stream(this.request);
    // The last event has everything; the deltas have to say the same.
    const deltas = { text: "", refusal: "", thinking: "", arguments: "" };
    const names = {
      "response.output_text.delta": "text",
      "response.refusal.delta": "refusal",
      "response.reasoning_summary_text.delta": "thinking",
      "response.function_call_arguments.delta": "arguments",
    };
    let number = -1;
    for await (const event of stream) {
      if (event.sequence_number !== ++number) throw new Error(`event ${number} has the number ${event.sequence_number}`);
      if (event.type === "response.failed") return { error: { class: event.type, ...event.response.error } };
      if (event.type in names) deltas[names[event.type]] += event.delta;
    }
    const response = await stream.finalResponse();
    const found = this.report(response);
    const raw = response.output.map((item) => item.arguments ?? "").join("");
    for (const [name, text] of Object.entries({ ...found, arguments: raw })) {
      if (name in deltas && deltas[name] !== (text ?? "")) throw new Error(`deltas of ${name} are ${deltas[name]}, not ${text}`);
    }
    return found;
  },
  async whole() {
    return this.report(await client(0).responses.create(this.request));
  },
};

const api = { chat, responses }[format];
await askAll(
  {
    stream: () => api.stream(0),
    retry: () => api.stream(2),
    whole: () => api.whole(),
    models: async () => ({ models: (await client(0).models.list()).data.map(({ id }) => id) }),
  },
  (error) => error.error,
);
