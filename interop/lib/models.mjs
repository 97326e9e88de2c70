// Servers and clients of models, in groups of checks.
import { official } from "./models/official.mjs";
import { real } from "./models/real.mjs";

/**
 * The groups, each in a file of its own under `models/`: `names` are the arguments that select checks, and `check(name)` prints a
 * line per check and returns how many failed. Further groups are added here.
 */
const GROUPS = [official, real];

export async function models(names) {
  const known = GROUPS.flatMap((group) => group.names);
  for (const name of names) {
    if (!known.includes(name)) throw new Error(`no such check of models: ${name}. There are ${known.join(", ")}.`);
  }
  let wrong = 0;
  for (const group of GROUPS) {
    for (const name of group.names) {
      if (names.length === 0 || names.includes(name)) wrong += await group.check(name);
    }
  }
  return wrong;
}
