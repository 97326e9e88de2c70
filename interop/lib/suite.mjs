// One run of the official conformance suite, against a server or a client.
import { readFileSync, readdirSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { withFolder } from "./folder.mjs";
import { conformanceSuite } from "./install.mjs";
import { run } from "./processes.mjs";

/** All checks of a run: their scenario, id, status and message. `subject` says what is tested: `server` or `client`, and where. */
export const runSuite = (version, subject, args) =>
  withFolder(async (folder) => {
    const command = [...(await conformanceSuite(version)), ...subject, "--output-dir", folder, ...args];
    const { stdout, stderr } = await run(command, { cwd: folder });
    // Names of scenarios have slashes in them, which are folders here.
    const files = readdirSync(folder, { recursive: true }).filter((file) => basename(file) === "checks.json");
    const checks = files.flatMap((file) => {
      const name = dirname(file);
      const scenario = /^(?:server-)?(.+)-\d{4}-\d\d-\d\dT[\d-]+Z$/.exec(name)?.[1] ?? name;
      const found = JSON.parse(readFileSync(join(folder, file), "utf8"));
      return found.map(({ id, status, errorMessage }) => ({ scenario, id, status, message: errorMessage ?? "" }));
    });
    return [...checks, ...unrecorded(checks, stdout, stderr)];
  });

// A scenario that fell over left no file; the summary still counts it.
function unrecorded(checks, stdout, stderr) {
  const summary = [...stdout.matchAll(/^[✓✗] (\S+): (\d+) passed, (\d+) failed/gm)];
  if (summary.length === 0) throw new Error(`the suite did not come to an end:\n${(stdout + stderr).slice(-2000)}`);
  return summary.flatMap(([, scenario, , failed]) => {
    const known = checks.filter((check) => check.scenario === scenario && check.status === "FAILURE").length;
    if (known >= Number(failed)) return [];
    const message = new RegExp(`^.*${scenario}.*(?:rror|ailed).*$`, "m").exec(stdout + stderr)?.[0];
    return [{ scenario, id: "unrecorded", status: "FAILURE", message: message ?? "the suite says that it failed, and not how" }];
  });
}
