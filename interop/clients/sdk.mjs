// The TypeScript SDK's client against a server of code mode: sdk.mjs COMMAND ARGS…
// MCP_SDK is the folder in whose node_modules the SDK is.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";

const require = createRequire(join(process.env.MCP_SDK, "package.json"));
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");

const [command, ...args] = process.argv.slice(2);

/** A connection for `use`, and a new server process with it. */
async function connected(use) {
  const client = new Client({ name: "interop-typescript", version: "1.0.0" });
  // The SDK passes on little of the environment by itself; runs are kept where it says.
  await client.connect(new StdioClientTransport({ command, args, env: process.env, stderr: "inherit" }));
  try {
    return await use(client);
  } finally {
    await client.close();
  }
}

const text = (result) => result.content.filter(({ type }) => type === "text").map((block) => block.text).join("\n");
const step = (what) => console.log(`ok: ${what}`);

const runId = await connected(async (client) => {
  step(`connected to ${client.getServerVersion().name}`);

  // From here on the client checks structured results against the schemas that it was given.
  const { tools } = await client.listTools();
  assert.deepEqual(tools.map(({ name }) => name).sort(), ["exec", "wait"]);
  for (const { name, outputSchema } of tools) assert.equal(outputSchema?.type, "object", `${name} has an output schema`);
  step("two tools, both with an output schema");

  const done = await client.callTool({ name: "exec", arguments: { code: "return 6 * 7" } });
  assert.equal(done.structuredContent?.status, "completed", JSON.stringify(done));
  assert.equal(done.structuredContent.value, 42);
  assert.notEqual(text(done), "", "there is text for clients that do not read structures");
  step("a program returns its value");

  const failed = await client.callTool({ name: "exec", arguments: { code: "const a = 1;\nthrow new Error('boom')" } });
  assert.equal(failed.isError, true, JSON.stringify(failed));
  assert.match(text(failed), /boom/);
  assert.match(text(failed), /(line |:)2\b/, "the line is named");
  step("a program that fails says what and where");

  const waiting = await client.callTool({
    name: "exec",
    arguments: { code: "await yield_control('later'); return 'continued'" },
  });
  assert.equal(waiting.structuredContent?.status, "waiting", JSON.stringify(waiting));
  assert.equal(typeof waiting.structuredContent.runId, "string");
  step("a program is suspended");
  return waiting.structuredContent.runId;
});

await connected(async (client) => {
  await client.listTools();
  const result = await client.callTool({ name: "wait", arguments: { runId } });
  assert.equal(result.structuredContent?.status, "completed", JSON.stringify(result));
  assert.equal(result.structuredContent.value, "continued");
  step("another process continues it");
});
