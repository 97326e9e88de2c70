// Checks of official clients: a script's replies, and the report that a client has to make of them.

export const MODELS = ["scripted", "another"];

const CALLS = [
  { id: "call_1", name: "exec", arguments: { code: 'return "ä\\n" + `🦀`' } },
  { id: "call_2", name: "wait", arguments: {} },
];
const THINKING = { thinking: "Two calls, then.", signature: "c2lnbmVk", encrypted: "ZW5jcnlwdGVk" };
const TEXT = "Grüße 🦀, world.\nOne moment.";
const USAGE = { input: 10, cacheRead: 30, cacheWrite: 20, output: 90, thinking: 40 };

/** A reply with everything in it. */
const RICH = {
  parts: [THINKING, { text: TEXT }, ...CALLS.map((call) => ({ call }))],
  usage: USAGE,
};

/** The formats' words for why a model stopped. */
const STOPS = {
  end: { chat: "stop", responses: "completed", messages: "end_turn" },
  calls: { chat: "tool_calls", responses: "completed", messages: "tool_use" },
  length: { chat: "length", responses: "incomplete: max_output_tokens", messages: "max_tokens" },
  window: { chat: "length", responses: "incomplete: max_output_tokens", messages: "model_context_window_exceeded" },
  refusal: { chat: "stop", responses: "completed", messages: "refusal" },
  pause: { chat: "stop", responses: "completed", messages: "pause_turn" },
  filter: { chat: "content_filter", responses: "incomplete: content_filter", messages: "refusal" },
};

/** The proof that reasoning is unchanged; Chat Completions has none. */
const SEAL = { responses: THINKING.encrypted, messages: THINKING.signature };

/** One of the few codes that the types of OpenAI's clients know. */
const CODE = "rate_limit_exceeded";

const PATHS = { chat: "/v1/chat/completions", responses: "/v1/responses", messages: "/v1/messages" };

const ERRORS = [
  [400, "BadRequestError", "invalid_request_error"],
  [401, "AuthenticationError", "authentication_error"],
  [429, "RateLimitError", "rate_limit_error"],
  [500, "InternalServerError", "api_error"],
];

/**
 * The checks of a format: `ask` is `models`, `stream`, `whole`, `retry` (a stream by a client that may try again) or `broken` (a
 * stream that must fail, in whatever way), `replies` are the script's, and `expected` is the client's report, with usage in the
 * script's terms.
 */
export function checks(format, client) {
  const stop = (reason) => STOPS[reason][format];
  const rich = { thinking: THINKING.thinking, seal: SEAL[format], text: TEXT, calls: CALLS, usage: USAGE, stop: stop("calls") };
  const expect = { path: PATHS[format], tools: ["exec", "wait"], contains: "What is the answer?" };
  // Anthropic's errors have no code.
  const code = format === "messages" ? undefined : CODE;
  const streamed = (what, reply, expected) => ({ what, ask: "stream", replies: [reply], expected });

  const forms = [
    streamed("a stream of thinking, text and two calls", { ...RICH, expect }, rich),
    streamed("three characters at a time", { ...RICH, pieces: 3 }, rich),
    streamed("byte by byte, with pings and CRLF", { ...RICH, wire: { cut: 1, pings: true, lineEnd: "\r\n" } }, rich),
    streamed("compressed", { ...RICH, wire: { gzip: true } }, rich),
    { what: "the same without a stream", ask: "whole", replies: [{ ...RICH, expect }], expected: rich },
    { what: "models are listed", ask: "models", replies: [], expected: { models: MODELS } },
  ];

  const text = { parts: [{ text: "Hi." }], usage: USAGE };
  const stops = Object.keys(STOPS).map((reason) =>
    streamed(`stop: ${reason}`, { ...text, stop: reason }, { text: "Hi.", usage: USAGE, stop: stop(reason) }),
  );
  const refusal = { [format === "messages" ? "text" : "refusal"]: "I cannot.", usage: USAGE, stop: stop("refusal") };
  const hidden = { seal: format === "chat" ? undefined : "hidden", text: "Hi.", usage: USAGE, stop: stop("end") };
  const special = [
    streamed("a refusal", { parts: [{ refusal: "I cannot." }], usage: USAGE }, refusal),
    streamed("thinking that is only encrypted", { parts: [{ encrypted: "hidden" }, ...text.parts], usage: USAGE }, hidden),
  ];

  const errors = ERRORS.map(([status, class_, type]) =>
    streamed(
      `status ${status} becomes ${class_}`,
      { status, headers: { "retry-after": "3" }, error: { type, code: CODE, message: "Not now." } },
      { error: { class: class_, status, type, code, message: "Not now.", retryAfter: "3", hasRequestId: true } },
    ),
  );
  const retry = {
    what: "a client that may try again does, at the time it was told",
    ask: "retry",
    replies: [{ status: 429, headers: { "retry-after-ms": "1" } }, { status: 529, headers: { "retry-after-ms": "1" } }, RICH],
    expected: rich,
  };

  // The class is the client's own choice, and no status goes with it.
  const classes = { "anthropic-python": "APIStatusError" };
  const failure = { type: "overloaded_error", code: CODE, message: "Busy." };
  const inStream = (form) => ({ ...text, streamError: { after: 3, ...failure, form } });
  const middle = [
    streamed("an error in the middle of a stream", inStream("nested"), {
      error: { class: classes[client] ?? "APIError", ...failure, code },
    }),
  ];
  if (format === "responses") {
    // One client gives the event as it is, the other makes an error of it with the event's type.
    const published = {
      "openai-node": { class: "APIError", type: "error", code, message: "Busy." },
      "openai-python": { class: "ResponseErrorEvent", code, message: "Busy." },
    }[client];
    middle.push(
      streamed("the same in the published form", inStream("flat"), { error: published }),
      streamed("a response that fails", inStream("failed"), { error: { class: "response.failed", code, message: "Busy." } }),
    );
  }
  const wire = { truncateAfter: 300 };
  const broken = { what: "a stream that breaks off", ask: "broken", replies: [{ ...RICH, wire }], expected: { error: "broken" } };
  return [...forms, ...stops, ...special, ...errors, retry, ...middle, broken];
}
