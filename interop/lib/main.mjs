// The command line: which part is run, and how it ends.
import { channels } from "./channels.mjs";
import { clients } from "./clients.mjs";
import { conformance } from "./conformance.mjs";
import { declarations } from "./declarations.mjs";
import { models } from "./models.mjs";
import { stopAll } from "./processes.mjs";
import { servers } from "./servers.mjs";
import { table } from "./table.mjs";
import { trajectory } from "./trajectory.mjs";

const parts = { conformance, servers, clients, declarations, models, channels, trajectory };
const seconds = (since) => `${((Date.now() - since) / 1000).toFixed(0)} s`;

/** Runs each part whatever became of those before, and sums up. */
async function all() {
  const [began, rows] = [Date.now(), []];
  let wrong = 0;
  for (const [name, part] of Object.entries(parts)) {
    console.log(`\n==== ${name}`);
    const since = Date.now();
    let found;
    try {
      found = await part([]);
    } catch (error) {
      console.log(`${name}: ${error.message}`);
      found = 1;
    }
    rows.push([name, found, seconds(since)]);
    wrong += found;
  }
  console.log(`\n${table(["part", "surprises", "time"], [...rows, ["all", wrong, seconds(began)]])}`);
  return wrong;
}

const [part = "all", ...names] = process.argv.slice(2);
if (part !== "all" && !(part in parts)) {
  console.error(`usage: interop/run [all | ${Object.keys(parts).join(" | ")}] [NAME…]`);
  process.exit(2);
}
try {
  const surprises = part === "all" ? await all() : await parts[part](names);
  if (surprises > 0) console.error(`\n${surprises} surprise(s)`);
  process.exitCode = surprises > 0 ? 1 : 0;
} catch (error) {
  console.error(`${part}: ${error.message}`);
  process.exitCode = 1;
} finally {
  await stopAll();
}
