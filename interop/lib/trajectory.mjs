// Trajectories: the page of a bundle in a real browser, and its programs replayed.
import assert from "node:assert/strict";
import { mkdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { pincer, scripted } from "./binaries.mjs";
import { withFolder } from "./folder.mjs";
import { browser } from "./install.mjs";
import { listen, run } from "./processes.mjs";

const HOSTILE = `</script><script>document.title = "taken"</script><img src="http://127.0.0.1:9/x" onerror="document.title = 'taken'">`;
const CODE = `await tools.write({ path: "a.txt", content: ${JSON.stringify(HOSTILE)} });\nreturn tools.read({ path: "a.txt" })`;
const REPLIES = [
  { parts: [{ call: { id: "c1", name: "exec", arguments: { code: CODE } } }] },
  { parts: [{ text: `It is written: ${HOSTILE}` }] },
];

export async function trajectory() {
  const { program: shell, env: shellEnv } = await browser();
  return withFolder(async (folder) => {
    const script = join(folder, "script.json");
    writeFileSync(script, JSON.stringify({ replies: REPLIES }));
    const model = await listen([await scripted(), script]);
    const workspace = join(folder, "workspace");
    mkdirSync(workspace);
    const config = join(folder, "pincer.json5");
    writeFileSync(
      config,
      JSON.stringify({
        workspace,
        tools: { codeMode: { enabled: true } },
        models: { providers: { s: { baseUrl: `${model.origin}/v1`, apiKey: "k" } } },
        agents: { defaults: { model: "s/scripted" } },
      }),
    );
    const program = await pincer();
    const env = { ...process.env, PINCER_CONFIG: config, PINCER_STATE_DIR: join(folder, "state") };
    const command = async (...args) => {
      const done = await run([program, ...args], { cwd: workspace, env });
      assert.equal(done.code, 0, `pincer ${args.join(" ")}: ${done.stderr}`);
      return done.stdout;
    };
    await command("agent", "-m", `Write a file: ${HOSTILE}`);
    await command("sessions", "export-trajectory", "main", "--output", "bundle");
    await command("trajectory", "view", "bundle");
    const page = join(workspace, "bundle", "trajectory.html");
    const picture = join(folder, "page.png");
    const open = (...args) =>
      run([shell, "--no-sandbox", "--disable-gpu", `--user-data-dir=${join(folder, "browser")}`, ...args, pathToFileURL(page).href], {
        env: shellEnv,
        timeout: 60_000,
      });
    let wrong = 0;
    const check = async (what, work) => {
      try {
        await work();
        console.log(`ok: ${what}`);
      } catch (error) {
        wrong += 1;
        console.log(`WRONG: ${what}\n${error.message}`);
      }
    };
    const { stdout: dom, stderr } = await open("--dump-dom", "--enable-logging=stderr");
    await check("the page's own script runs under its policy", async () => {
      assert.match(dom, /id="count"[^>]*>\d+ events</);
      assert.doesNotMatch(stderr, /Content Security Policy/);
    });
    await check("calls of the program stand below it", async () => {
      assert.match(dom, /class="e nested[^>]*>[\s\S]*openclaw:core:write[\s\S]*line 1/);
    });
    await check("texts of the session run nothing and load nothing", async () => {
      assert.match(dom, /<title>Trajectory of main<\/title>/);
      assert.doesNotMatch(dom, /<img/);
    });
    await check("the page is drawn", async () => {
      await open(`--screenshot=${picture}`, "--window-size=1100,1400");
      assert.ok(statSync(picture).size > 10_000, "the picture is empty");
    });
    await check("the programs of the bundle take their way again", async () => {
      const replayed = JSON.parse(await command("runs", "replay", "./bundle", "--json"));
      assert.deepEqual([replayed.same, replayed.programs.length], [true, 1]);
    });
    await model.stop();
    return wrong;
  });
}
