// Usage: node openai.mjs URL TEXT STREAMS ROUNDS
// TEXT is a file with the text of each reply.
// Reads replies with OpenAI's own client, so many at once and so often, and prints what that took as one JSON line.
// MODEL_SDK is the folder in whose node_modules the client is.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const { OpenAI } = createRequire(join(process.env.MODEL_SDK, "package.json"))("openai");
const [url, file, streams, rounds] = process.argv.slice(2);
const text = readFileSync(file, "utf8");
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "bench", maxRetries: 0 });
const request = {
  model: "scripted",
  messages: [{ role: "user", content: "Say something long." }],
  stream: true,
  stream_options: { include_usage: true },
};

async function said() {
  let said = "";
  for await (const { choices } of await client.chat.completions.create(request)) said += choices[0]?.delta.content ?? "";
  return said;
}

// Code that is compiled for the first time is no growth, and no time of an event.
await said();
const before = process.memoryUsage().rss;
const cpuBefore = process.cpuUsage();
const roundMs = [];
let complete = 0;
for (let round = 0; round < Number(rounds); round++) {
  const began = performance.now();
  const read = await Promise.allSettled(Array.from({ length: Number(streams) }, said));
  roundMs.push(performance.now() - began);
  complete += read.filter(({ value }) => value === text).length;
}
const { user, system } = process.cpuUsage(cpuBefore);
// In KiB.
const peak = process.resourceUsage().maxRSS * 1024;
console.log(JSON.stringify({ roundMs, cpuMs: (user + system) / 1e3, complete, peakGrowthBytes: Math.max(0, Math.round(peak - before)) }));
process.exit(0);
