// The common part of the drivers for Node.js: DRIVER FORMAT URL ASKS, a line of JSON per ask.
import { createRequire } from "node:module";
import { join } from "node:path";

export const [format, url, asks] = process.argv.slice(2);

/** MODEL_SDK is the folder in whose node_modules the client is. */
export const sdk = (name) => createRequire(join(process.env.MODEL_SDK, "package.json"))(name);

export const QUESTION = "What is the answer?";

const SCHEMA = { type: "object", properties: { code: { type: "string" } }, additionalProperties: false };
/** Makes the tools with `shape(name, description, schema)`. */
export const tools = (shape) => ["exec", "wait"].map((name) => shape(name, `The tool ${name}.`, SCHEMA));

/** Reports an error of a client. `body` finds the server's words in it. */
export const failed = (error, body) => {
  const { type, code, message } = body(error) ?? {};
  const { status } = error;
  const retryAfter = error.headers?.get?.("retry-after");
  const hasRequestId = status === undefined ? undefined : /^req_\d+$/.test(error.requestID);
  return { error: { class: error.constructor.name, status, type, code, message, retryAfter, hasRequestId } };
};

/** Asks each of the things in turn; `how` has a function for each. */
export async function askAll(how, body) {
  for (const ask of JSON.parse(asks)) {
    let found;
    try {
      found = await how[ask === "broken" ? "stream" : ask]();
    } catch (error) {
      found = ask === "broken" ? { error: "broken" } : failed(error, body);
      // Something that the server never said is a mistake of the driver, or a complaint of the client.
      if (ask !== "broken") found.error.message ??= String(error.stack);
    }
    // Fields that are undefined or null say nothing.
    console.log(JSON.stringify(found, (_, value) => value ?? undefined));
  }
}
