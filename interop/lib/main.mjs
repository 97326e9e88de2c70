// The command line: which part is run, and how it ends.
import { clients } from "./clients.mjs";
import { conformance } from "./conformance.mjs";
import { stopAll } from "./processes.mjs";
import { servers } from "./servers.mjs";

const parts = { conformance, servers, clients };
const [part = "conformance", ...names] = process.argv.slice(2);
if (!(part in parts)) {
  console.error(`usage: interop/run [${Object.keys(parts).join(" | ")}] [NAME…]`);
  process.exit(2);
}
try {
  const surprises = await parts[part](names);
  if (surprises > 0) console.error(`\n${surprises} surprise(s)`);
  process.exitCode = surprises > 0 ? 1 : 0;
} catch (error) {
  console.error(`${part}: ${error.message}`);
  process.exitCode = 1;
} finally {
  await stopAll();
}
