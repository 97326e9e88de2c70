// Channels: the IRC plugin against a real server, with people on plain sockets.
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { createServer, request as httpRequest } from "node:http";
import { connect, createServer as createSocket } from "node:net";
import { join, dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { pincer, scripted } from "./binaries.mjs";
import { withFolder } from "./folder.mjs";
import { ngircd } from "./install.mjs";
import { listen, run, start } from "./processes.mjs";

const example = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "examples", "irc");
const PATIENCE = 60_000;

/** Waits until `look` returns something. */
async function until(look, what) {
  const deadline = Date.now() + PATIENCE;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (Date.now() > deadline) throw new Error(`it never came: ${typeof what === "function" ? what() : what}`);
    await new Promise((go) => setTimeout(go, 20));
  }
}

async function freePort() {
  const server = createSocket();
  await new Promise((go) => server.listen(0, "127.0.0.1", go));
  const { port } = server.address();
  await new Promise((go) => server.close(go));
  return port;
}

/** A person on IRC. */
class Person {
  constructor(nick, port) {
    Object.assign(this, { nick, port, lines: [] });
  }

  async joins(...channels) {
    const open = () =>
      new Promise((good, bad) => {
        const socket = connect(this.port, "127.0.0.1", () => good(socket));
        socket.on("error", bad);
      });
    this.socket = await until(() => open().catch(() => undefined), "a connection");
    let rest = "";
    this.socket.setEncoding("utf8").on("data", (data) => {
      const lines = (rest + data).split("\r\n");
      rest = lines.pop();
      for (const line of lines) {
        if (line.startsWith("PING")) this.says(`PONG ${line.slice(5)}`);
        this.lines.push(line);
      }
    });
    this.socket.on("error", () => undefined);
    this.says(`NICK ${this.nick}`, `USER ${this.nick} 0 * :${this.nick}`);
    await this.hears(/ 001 /);
    for (const channel of channels) {
      this.says(`JOIN ${channel}`);
      await this.hears(new RegExp(` 366 .*${channel}`));
    }
  }

  says(...lines) {
    for (const line of lines) this.socket.write(`${line}\r\n`);
  }

  tells(to, text) {
    this.says(`PRIVMSG ${to} :${text}`);
  }

  hears(pattern) {
    return until(() => this.lines.find((line) => pattern.test(line)), () => `${this.nick} ${pattern}\n${this.lines.slice(-5).join("\n")}`);
  }

  /** What the bot has said to a place, line by line. */
  told(to = this.nick) {
    const said = this.lines.map((line) => /^:pincer_*!\S+ PRIVMSG (\S+) :(.*)$/.exec(line)).filter(Boolean);
    return said.filter(([, place]) => place.toLowerCase() === to.toLowerCase()).map(([, , text]) => text);
  }

  hearsBot(text, to) {
    return until(() => this.told(to).includes(text), () => `${this.nick}: ${text}\n${this.lines.slice(-5).join("\n")}`);
  }
}

/** Stands before the scripted model: counts its requests, and holds them back while it is shut. */
async function gate(to) {
  const gate = { requests: 0, opened: Promise.resolve(), open: () => undefined };
  gate.shut = () => (gate.opened = new Promise((go) => (gate.open = go)));
  gate.begun = (count) => until(() => gate.requests >= count, `${count} requests to the model`);
  const server = createServer(async (incoming, outgoing) => {
    const body = [];
    for await (const piece of incoming) body.push(piece);
    gate.requests += 1;
    await gate.opened;
    const { method, headers, url } = incoming;
    const passed = httpRequest(new URL(url, to), { method, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode, answer.headers);
      answer.pipe(outgoing);
    });
    passed.on("error", () => outgoing.destroy());
    outgoing.on("error", () => passed.destroy());
    passed.end(Buffer.concat(body));
  });
  await new Promise((go) => server.listen(0, "127.0.0.1", go));
  gate.url = `http://127.0.0.1:${server.address().port}`;
  gate.close = () => {
    server.close();
    server.closeAllConnections();
  };
  return gate;
}

const LONG = Array.from({ length: 300 }, (_, n) => `word${n}`).join(" ");
const say = (text) => ({ parts: [{ text }] });
const REPLIES = [
  say("Hello, Ann."),
  say("Hello, lounge."),
  say(LONG),
  { parts: [{ call: { id: "c1", name: "message", arguments: { text: "One moment." } } }] },
  say("Done."),
  say("While the server was away."),
  say("Nobody was there to hear this."),
  say("After the kill."),
  say("The end."),
];

export async function channels() {
  const irc = await ngircd();
  return withFolder(async (folder) => {
    const port = await freePort();
    const conf = join(folder, "ngircd.conf");
    writeFileSync(
      conf,
      `[Global]\nName = irc.test\nInfo = test\nListen = 127.0.0.1\nPorts = ${port}\nMotdPhrase = hello\n` +
        `[Options]\nIdent = no\nPAM = no\nDNS = no\n[Limits]\nMaxConnectionsIP = 0\nMaxPenaltyTime = 0\n`,
    );
    const serve = () => start([irc.program, "-n", "-f", conf], { env: irc.env });
    let server = serve();
    const script = join(folder, "script.json");
    writeFileSync(script, JSON.stringify({ replies: REPLIES }));
    const model = await listen([await scripted(), script]);
    const held = await gate(model.origin);
    const workspace = join(folder, "workspace");
    mkdirSync(workspace);
    const config = join(folder, "pincer.json5");
    const settings = { host: "127.0.0.1", port, nick: "pincer", join: ["#lounge"], lineEveryMs: 20 };
    writeFileSync(
      config,
      JSON.stringify({
        workspace,
        plugins: { paths: [example] },
        models: { providers: { s: { baseUrl: `${held.url}/v1`, apiKey: "k" } } },
        agents: { defaults: { model: "s/scripted" } },
        channels: { irc: { allowFrom: ["ann", "ben"], refuseWith: "Ask the operator.", config: settings } },
      }),
    );
    const program = await pincer();
    const env = { ...process.env, PINCER_CONFIG: config, PINCER_STATE_DIR: join(folder, "state") };
    const command = (...args) => run([program, "channels", ...args], { cwd: workspace, env });
    const pending = async () => JSON.parse((await command("deliveries", "--state", "pending", "--json")).stdout);
    const starts = async () => {
      const running = start([program, "channels", "start", "--json"], { cwd: workspace, env });
      await until(() => running.stdout.includes('"up"'), () => `the channel is up\n${running.stdout}${running.stderr}`);
      return running;
    };
    let ours = await starts();
    const [ann, ben, eve] = ["ann", "ben", "eve"].map((nick) => new Person(nick, port));
    const all = [ann, ben, eve];
    let wrong = 0;
    const check = async (what, work) => {
      try {
        await work();
        console.log(`ok: ${what}`);
      } catch (error) {
        wrong += 1;
        console.log(`WRONG: ${what}\n${error.message}\n${ours.stderr}`);
      }
    };
    try {
      await ann.joins();
      await ben.joins("#lounge");
      await eve.joins("#lounge");
      await check("a direct message is answered", async () => {
        ann.tells("pincer", "Hi.");
        await ann.hearsBot("Hello, Ann.");
      });
      await check("strangers are refused, in a direct message only", async () => {
        eve.tells("#lounge", "pincer: do something");
        eve.tells("pincer", "Do something.");
        await eve.hearsBot("Ask the operator.");
        assert.equal(held.requests, 1);
      });
      await check("a mention in a group is answered there, and nothing else is", async () => {
        ben.tells("#lounge", "Does anybody know?");
        ben.tells("#lounge", "pincer: hello");
        await ben.hearsBot("Hello, lounge.", "#lounge");
        assert.equal(held.requests, 2);
      });
      await check("a long answer comes in lines that IRC takes, whole and in order", async () => {
        ann.tells("pincer", "Tell me a long story.");
        await until(() => ann.told().join(" ").includes(LONG), () => ann.told().at(-1));
        assert.ok(ann.told().every((line) => Buffer.byteLength(line) <= 400));
      });
      await check("the `message` tool sends before the answer", async () => {
        ann.tells("pincer", "Take your time.");
        await ann.hearsBot("Done.");
        assert.deepEqual(ann.told().slice(-2), ["One moment.", "Done."]);
      });
      await check("an answer waits while the server is away, and arrives once", async () => {
        held.shut();
        ann.tells("pincer", "Wait for me.");
        await held.begun(6);
        await server.stop();
        held.open();
        await until(async () => (await pending()).length === 1, "it waits");
        server = serve();
        await Promise.all([ann.joins(), ben.joins("#lounge")]);
        await ann.hearsBot("While the server was away.");
        await until(async () => (await pending()).length === 0, "nothing waits");
        assert.equal(ann.told().filter((text) => text === "While the server was away.").length, 1);
      });
      await check("a Pincer that is killed loses neither the message nor a text of the operator's", async () => {
        held.shut();
        ann.tells("pincer", "Are you there?");
        await held.begun(7);
        process.kill(-ours.child.pid, "SIGKILL");
        await ours.ended;
        held.open();
        const sent = await command("send", "irc", "--to", "ben", "-m", "From the operator.", "--timeout", "0", "--json");
        assert.equal(sent.code, 3, sent.stderr);
        await ours.stop();
        ours = await starts();
        await ann.hearsBot("After the kill.");
        await ben.hearsBot("From the operator.");
        ann.tells("pincer", "Good bye.");
        await ann.hearsBot("The end.");
        assert.equal(ann.told().filter((text) => text === "After the kill.").length, 1);
        assert.equal(ben.told().filter((text) => text === "From the operator.").length, 1);
      });
      await check("a text for a place that does not exist fails, and says why", async () => {
        const { code, stderr } = await command("send", "irc", "--to", "#nowhere", "-m", "Hello?");
        assert.equal(code, 1, stderr);
        assert.match(stderr, /#nowhere/);
        const injected = await command("send", "irc", "--to", "ann,ben", "-m", "Hello?");
        assert.match(injected.stderr, /not the name of a person or channel/);
      });
      await check("another process does not run the same channel", async () => {
        const { code, stderr } = await command("start");
        assert.equal(code, 1);
        assert.match(stderr, /another process runs the channel irc/);
      });
      await check("the end is clean", async () => {
        process.kill(ours.child.pid, "SIGTERM");
        const { code } = await ours.ended;
        assert.equal(code, 0, ours.stderr);
        await ben.hears(/^:pincer_*!\S+ QUIT/);
      });
    } finally {
      held.close();
      for (const { socket } of all) socket?.destroy();
      await ours.stop();
      await server.stop();
      await model.stop();
    }
    return wrong;
  });
}
