// What is known to fail, and why: expected-failures.yml.
import { readFileSync } from "node:fs";

const file = new URL("../expected-failures.yml", import.meta.url);

/** Entries of one target and run. The file is YAML of one shape, so it is read line by line; an entry without a reason is wrong. */
export function expected(target, run) {
  let [inTarget, inRun] = [false, false];
  const entries = [];
  readFileSync(file, "utf8").split("\n").forEach((line, index) => {
    const where = `expected-failures.yml:${index + 1}`;
    if (/^\s*(#|$)/.test(line)) return;
    const heading = /^( {2})?([^\s#].*):$/.exec(line);
    if (heading) {
      if (heading[1]) inRun = heading[2] === run;
      else [inTarget, inRun] = [heading[2] === target, false];
      return;
    }
    const entry = /^ {4}- (\S+):(\S+) +# (.+)$/.exec(line);
    if (!entry) throw new Error(`${where}: not "    - scenario:check  # reason": ${line}`);
    const [, scenario, id, reason] = entry;
    if (inTarget && inRun) entries.push({ scenario, id, reason, where });
  });
  return entries;
}

/** Sorts checks: those that fail as expected, those that should not, and entries that nothing fails for. */
export function compare(checks, entries) {
  const bad = checks.filter(({ status }) => status === "FAILURE" || status === "WARNING");
  const covers = (entry, check) => entry.scenario === check.scenario && (entry.id === "*" || entry.id === check.id);
  return {
    passed: checks.filter(({ status }) => status === "SUCCESS").length,
    expected: bad.filter((check) => entries.some((entry) => covers(entry, check))),
    surprises: bad.filter((check) => !entries.some((entry) => covers(entry, check))),
    stale: entries.filter((entry) => !bad.some((check) => covers(entry, check))),
  };
}
