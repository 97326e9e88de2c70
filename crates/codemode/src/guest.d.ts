/** A tool, without its schema. */
type ToolEntry = {
  id: string;
  name: string;
  label?: string;
  description: string;
  source: "openclaw" | "plugin" | "mcp" | "client";
  sourceName: string;
};

/** Every tool but those of MCP servers. */
declare const ALL_TOOLS: readonly ToolEntry[];

/** Finds and calls every tool but those of MCP servers. A failed call rejects with a ToolError. */
declare const tools: {
  /** The tools that fit these words best, or the one with this id. */
  search(words: string, options?: { limit?: number }): Promise<ToolEntry[]>;
  /** A tool with JSON Schemas of its input and, where it says so, of its value. */
  describe(id: string): Promise<ToolEntry & { parameters: unknown; returns?: unknown }>;
  /** Calls a tool by its id, or by a name that only one has, and gives its JSON value. */
  call(id: string, input?: unknown): Promise<unknown>;
  /** Each tool whose name only it has is a function too: tools.read({ path: "a.txt" }). */
  [name: string]: (...args: any[]) => Promise<any>;
};

/** What a failed call rejects with. */
interface ToolError extends Error {
  code: string;
  toolId: string;
  /** "none": nothing was done. "unknown": something may have been. */
  effect: "none" | "unknown" | "done";
}

/** Declarations as files: "guest.d.ts" is this one, "mcp/index.d.ts" and "mcp/SERVER.d.ts" are those of MCP servers. */
declare const API: {
  list(prefix?: string): Promise<{ path: string; description: string; bytes: number }[]>;
  read(path: string): Promise<string>;
};

/** MCP servers: MCP.server.tool({ … }). What each has is in API.read("mcp/SERVER.d.ts"). */
declare namespace MCP {
  /** All servers, and which of them are down. */
  function $api(): Promise<{ kind: "mcp_api"; scope: "root"; header: string; servers: unknown[]; note: string }>;
}

/** Objects that plugins bring, by name. Each is a global of its own as well. */
declare const namespaces: Readonly<Record<string, any>>;

/** Skills of the agent: instructions for kinds of tasks. In programs of agents only. */
declare const skills: {
  list(): Promise<{ name: string; description: string; location: string }[]>;
  /** The text of a skill's SKILL.md. */
  read(name: string): Promise<string>;
};

/** The data of an MCP result: throws if it is an error, else structuredContent, else the parsed or plain text. */
declare function unwrap(result: unknown): any;

/** Prints a line: strings as they are, everything else as JSON. */
declare function text(value: unknown): void;
/** Prints a value as JSON. */
declare function json(value: unknown): void;
declare const console: {
  log(...values: unknown[]): void;
  info(...values: unknown[]): void;
  warn(...values: unknown[]): void;
  error(...values: unknown[]): void;
  debug(...values: unknown[]): void;
};

/** Suspends the program until it is continued with wait. */
declare function yield_control(reason?: string): Promise<{ status: "yielded"; reason?: string }>;

/** Timers survive a suspension. A program that has returned does not wait for them. */
declare function setTimeout(callback: (...args: any[]) => unknown, ms?: number, ...args: any[]): number;
declare function clearTimeout(id: number): void;

declare function structuredClone<T>(value: T): T;
declare function atob(text: string): string;
declare function btoa(text: string): string;
declare class TextEncoder {
  readonly encoding: "utf-8";
  encode(text?: string): Uint8Array;
}
declare class TextDecoder {
  readonly encoding: "utf-8";
  decode(bytes?: ArrayBuffer | ArrayBufferView): string;
}
