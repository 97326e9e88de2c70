// The guest side of the bridge. It runs once, when the image is made; every cell starts from the heap it leaves behind.
//
// Everything here must work after hostile code has replaced every prototype method and global it can reach. Hence:
// intrinsics are captured first; own closures and null-prototype objects hold the state; there is no spread, no
// destructuring of arrays, no `for…of` and no method call on a value that guest code can touch. What guest code can still
// break this way is its own program. The host trusts nothing it gets from here.
(function (emit) {
  "use strict";

  const { apply, ownKeys } = Reflect;
  const { create, defineProperty, freeze, getOwnPropertyDescriptor, getPrototypeOf } = Object;
  const { parse, stringify } = JSON;
  const { isArray } = Array;
  const { captureStackTrace } = Error;
  const { set: setFormatter } = getOwnPropertyDescriptor(Error, "prepareStackTrace");
  const { min, max } = Math;
  const PlainError = Error;
  const PlainTypeError = TypeError;
  const PlainMap = Map;
  const PlainPromise = Promise;
  const PlainProxy = Proxy;
  const { withResolvers } = Promise;
  const PlainNumber = Number;
  const WeakTable = WeakMap;
  const { set: mapSet, delete: mapDelete, values: mapValues } = Map.prototype;
  const { get: weakGet, set: weakSet } = WeakMap.prototype;
  const mapNext = new Map().values().next;
  const { slice: sliceString, startsWith, endsWith, split } = String.prototype;

  // What `emit` may say. The same numbers are in `src/bridge.rs`.
  const TEXT = 0, JSON_ITEM = 1, REQUEST = 2, CANCEL = 3, VALUE = 4, FAILURE = 5, LOAD = 6;
  // What it may be asked to load.
  const GLOBAL = 0, FILE = 1;

  const none = freeze([]);
  const constant = (value) => ({ __proto__: null, value, enumerable: true, writable: false, configurable: false });
  const own = (value) => ({ __proto__: null, value, enumerable: true, writable: true, configurable: true });
  const define = (name, value) => defineProperty(globalThis, name, constant(value));
  // Globals of every program but a bare one. `install` makes them as firm as all others, once it is known which program it is.
  const helpers = create(null);
  const offer = (name, value) => {
    helpers[name] = true;
    defineProperty(globalThis, name, { __proto__: null, value, enumerable: true, writable: false, configurable: true });
  };
  const named = (name, fn) => freeze(defineProperty(fn, "name", constant(name)));

  // From `values.js`: the forms in which values leave.
  const { toJson, listJson, errorLike, text } = globalThis.pincerValues;
  delete globalThis.pincerValues;

  // ---- Requests: what only the host can do --------------------------------------------------------------------------

  // id → how to settle it. The host assigns the ids and keeps its own table.
  const unsettled = create(null);
  // How many of them are no timers.
  let awaited = 0;
  // Errors that the host delivered → id of the request, so that a cell that ends on one can say which.
  const delivered = new WeakTable();

  // The program's lines of a stack, as the engine would write them but for the names of functions: a program chooses those, and
  // one with a line break in it would be taken for a line of its own. A person is told the line of a call.
  let fileOf, lineOf, columnOf;
  const formatted = (_, frames) => {
    let lines = "";
    for (let i = 0; i < frames.length; i++) {
      const frame = frames[i];
      if (fileOf === undefined) {
        const methods = getPrototypeOf(frame);
        fileOf = methods.getFileName;
        lineOf = methods.getLineNumber;
        columnOf = methods.getColumnNumber;
      }
      const file = apply(fileOf, frame, none);
      if (file === PROGRAM) lines += `    at ${file}:${apply(lineOf, frame, none)}:${apply(columnOf, frame, none)}\n`;
    }
    return lines;
  };
  const PROGRAM = "cell.js";

  // `entrance` is the function that guest code called: the stack begins with its caller.
  // `first`, if there is one, comes before the arguments. JSON has no `undefined`, so a bit for each place says where one was.
  const MOST_PLACES = 30;
  const open = (entrance, method, args, resolve, reject, timer, first) => {
    const json = listJson(args, first);
    const before = first === undefined ? 0 : 1;
    let absent = 0;
    for (let i = 0; i < args.length && i < MOST_PLACES; i++) if (args[i] === undefined) absent |= 1 << (i + before);
    const site = { __proto__: null, stack: "" };
    apply(setFormatter, PlainError, [formatted]);
    captureStackTrace(site, entrance);
    apply(setFormatter, PlainError, [undefined]);
    const id = emit(REQUEST, method, json, site.stack, absent & 0x7fffffff);
    unsettled[id] = { __proto__: null, resolve, reject, stack: site.stack, timer };
    if (!timer) awaited++;
    return id;
  };

  const request = (entrance, method, args, first) => {
    const promise = apply(withResolvers, PlainPromise, none);
    open(entrance, method, args, promise.resolve, promise.reject, false, first);
    return promise.promise;
  };

  const deliveredError = (id, fields, stack) => {
    const error = new PlainError(fields.message);
    const keys = ownKeys(fields);
    for (let i = 0; i < keys.length; i++) defineProperty(error, keys[i], own(fields[keys[i]]));
    // The stack of the call, not of the delivery: that is the line the author can do something about.
    defineProperty(error, "stack", { __proto__: null, value: stack, enumerable: false, writable: true, configurable: true });
    apply(weakSet, delivered, [error, id]);
    return error;
  };

  // `[[id, 1, value] | [id, 0, {name, message, …}], …]`, in the order in which they settled.
  const settle = (json) => {
    const answers = parse(json);
    for (let i = 0; i < answers.length; i++) {
      const answer = answers[i], id = answer[0], entry = unsettled[id];
      if (entry === undefined) continue;
      delete unsettled[id];
      if (!entry.timer) awaited--;
      if (answer[1] === 1) entry.resolve(answer[2]);
      else entry.reject(deliveredError(id, answer[2], entry.stack));
    }
  };

  // ---- The program and how it ends ----------------------------------------------------------------------------------

  // What the program came to, kept until detached calls are done too: a call of `emit`.
  let outcome;
  // Whether the program is over, and only the promise that is its last value is not.
  let isLast = false;
  // What `emit` is told of a value. The same numbers are in `src/bridge.rs`.
  const RETURNED = 0, LAST = 1, UNREADABLE = 2, UNSETTLED = 3;
  // Rejected promises nobody handles (yet): a handler may come later, so only the end of the cell judges them.
  const rejections = new PlainMap();

  const end = (kind, json, what) => {
    outcome = { __proto__: null, kind, json, what };
    emit(kind, json, what);
  };

  // What a failure may say: its length is the program's doing, and it is copied several times.
  const TEXT_LENGTH = 8000, ERROR_LENGTH = 32000;
  const shortened = (string) =>
    string.length <= TEXT_LENGTH
      ? string
      : `${apply(sliceString, string, [0, TEXT_LENGTH])}… (${string.length - TEXT_LENGTH} characters left out)`;

  // The errors that an error names as its causes or parts, as texts, and the first of all of them that the host delivered.
  const MOST_BEHIND = 10;
  const whatIsBehind = (reason) => {
    const errors = create(null);
    errors[0] = reason;
    const out = { __proto__: null, texts: "", error: undefined, request: undefined };
    let count = 1;
    const add = (error) => { if (count < MOST_BEHIND && errorLike(error)) errors[count++] = error; };
    for (let i = 0; i < count; i++) {
      const error = errors[i];
      if (i > 0) out.texts += `\n  from ${text(error.name)}: ${text(error.message)}`;
      const request = apply(weakGet, delivered, [error]);
      if (out.request === undefined && request !== undefined) {
        out.request = request;
        out.error = error;
      }
      add(error.cause);
      const parts = error.errors;
      if (isArray(parts)) for (let j = 0; j < parts.length && count < MOST_BEHIND; j++) add(parts[j]);
    }
    return out;
  };

  // All fields are strings or numbers, in a frozen object without a prototype: `stringify` keeps a list of what it is in,
  // and a setter on `Array.prototype` gets to see it.
  const failure = (kind, reason) => {
    const out = { __proto__: null, kind, name: "Error", message: "the error itself cannot be read", stack: "" };
    try {
      const error = errorLike(reason);
      const name = error ? text(reason.name) : "Error";
      const message = error ? text(reason.message) : text(reason);
      const stack = error ? text(reason.stack) : "";
      const behind = error ? whatIsBehind(reason) : { __proto__: null, texts: "" };
      const request = behind.request;
      if (request !== undefined) {
        const json = toJson(behind.error);
        const short = json.length <= ERROR_LENGTH;
        out.error = short ? json : stringify({ __proto__: null, name: shortened(name), message: shortened(message) });
        out.request = request;
      }
      out.name = shortened(name);
      out.message = shortened(message + behind.texts);
      out.stack = shortened(stack);
    } catch {
      // What was read before the reading failed is not worth reporting.
    }
    return stringify(freeze(out));
  };

  const run = async (program) => {
    try {
      end(VALUE, toJson(await program()), RETURNED);
    } catch (reason) {
      end(FAILURE, failure("thrown", reason));
    }
  };

  // A program that does not return has the value of its last expression, in a list: so a promise there is not waited for as
  // part of the program. Whatever is wrong with that value, the program has done its work, and only the value is left out.
  const runToLast = async (program) => {
    let value, thenable = false;
    try {
      value = (await program())[0];
      isLast = true;
    } catch (reason) {
      return end(FAILURE, failure("thrown", reason));
    }
    try {
      thenable = value !== null && (typeof value === "object" || typeof value === "function") && typeof value.then === "function";
    } catch {
      return end(VALUE, undefined, UNREADABLE);
    }
    try {
      if (thenable) value = await value;
    } catch (reason) {
      return end(FAILURE, failure("thrown", reason));
    }
    let json;
    try {
      json = toJson(value);
    } catch {
      return end(VALUE, undefined, UNREADABLE);
    }
    end(VALUE, json, LAST);
  };

  const stalled = (message) =>
    stringify(freeze({ __proto__: null, kind: "stalled", name: "Error", message, stack: "" }));

  // Called when no job is left and the host owes no answer: this is the end, one way or the other.
  const conclude = () => {
    const first = apply(mapNext, apply(mapValues, rejections, none), none);
    if (!first.done) emit(FAILURE, failure("rejection", first.value));
    else if (outcome !== undefined) emit(outcome.kind, outcome.json, outcome.what);
    else if (isLast) emit(VALUE, undefined, UNSETTLED);
    else emit(FAILURE, stalled("the program waits for a promise that nothing will ever settle"));
  };

  // Called when no job is left, and the program may have ended with nothing but timers left. Those are not waited for.
  const rest = () => {
    if (outcome !== undefined && awaited === 0) conclude();
  };

  // ---- Globals ------------------------------------------------------------------------------------------------------

  // A node is ["data", json] | ["call", method] | ["bound", method, first] | ["object", {name: node}] | ["array", [node]] |
  // ["open", {name: node}, method, first] | ["files", [[path, description, bytes]]] | ["global", name].
  const build = (name, node) => {
    const kind = node[0], body = node[1];
    switch (kind) {
      case "call": {
        const call = named(name, (...args) => request(call, body, args));
        return call;
      }
      case "bound": {
        const first = deepFreeze(node[2]);
        const call = named(name, (...args) => request(call, body, args, first));
        return call;
      }
      case "data": return deepFreeze(body);
      case "files": return filesOf(body);
      case "global": return hostGlobal(body);
      case "array": {
        const array = [];
        for (let i = 0; i < body.length; i++) defineProperty(array, i, constant(build(`${name}[${i}]`, body[i])));
        return freeze(array);
      }
    }
    const object = create(null);
    const keys = ownKeys(body);
    for (let i = 0; i < keys.length; i++) defineProperty(object, keys[i], constant(build(keys[i], body[keys[i]])));
    return kind === "open" ? openObject(object, node[2], node[3]) : freeze(object);
  };

  // An object of which nobody knows yet what is in it: whatever is called, the host says what came of it. It is no promise,
  // and has no members to list.
  const openObject = (known, method, first) => new PlainProxy(known, freeze({
    __proto__: null,
    get: (_, key) => {
      if (getOwnPropertyDescriptor(known, key) !== undefined) return known[key];
      if (typeof key !== "string" || key === "then" || key === "toJSON") return undefined;
      const call = named(key, (...args) => request(call, method, args, freeze([first, key])));
      return call;
    },
    set: () => false,
    defineProperty: () => false,
    deleteProperty: () => false,
    setPrototypeOf: () => false,
    preventExtensions: () => false,
  }));

  // Globals that are made when the program first uses them: most programs need few of them, and none of what nobody needed
  // is in a snapshot.
  const made = create(null);
  const hostGlobal = (name) => {
    if (made[name] === undefined) {
      const node = emit(LOAD, GLOBAL, name);
      if (node === undefined) throw new PlainError(`${name} is not available to this program any more`);
      made[name] = build(name, parse(node));
    }
    return made[name];
  };

  // Files that are there to be read, without asking anybody.
  const pathOf = (path) => {
    if (typeof path !== "string") throw new PlainTypeError("invalid API file path: it must be a string, such as \"mcp/index.d.ts\"");
    const parts = apply(split, path, ["/"]);
    for (let i = 0; i < parts.length; i++) {
      if (parts[i] === "." || parts[i] === ".." || (parts[i] === "" && i === 0 && parts.length > 1)) {
        throw new PlainError(`invalid API file path: ${shortened(path)}`);
      }
    }
    return path;
  };
  const filesOf = (files) => {
    const list = async (prefix) => {
      let path = prefix === undefined ? "" : pathOf(prefix);
      while (apply(endsWith, path, ["/"])) path = apply(sliceString, path, [0, -1]);
      const found = [];
      for (let i = 0, count = 0; i < files.length; i++) {
        const file = files[i];
        if (!apply(startsWith, file[0], [path])) continue;
        const entry = { path: file[0], description: file[1], bytes: file[2] };
        defineProperty(found, count++, own(entry));
      }
      return found;
    };
    const read = async (path) => {
      const content = emit(LOAD, FILE, pathOf(path));
      if (content === undefined) throw new PlainError(`Unknown API file: ${shortened(path)}. API.list() tells which there are.`);
      return content;
    };
    const api = create(null);
    defineProperty(api, "list", constant(named("list", list)));
    defineProperty(api, "read", constant(named("read", read)));
    return freeze(api);
  };

  const deepFreeze = (value) => {
    if (value === null || typeof value !== "object") return value;
    const keys = ownKeys(value);
    for (let i = 0; i < keys.length; i++) if (keys[i] !== "length") deepFreeze(value[keys[i]]);
    return freeze(value);
  };

  const install = (json) => {
    const offered = ownKeys(helpers);
    for (let i = 0; i < offered.length; i++) {
      if (getOwnPropertyDescriptor(globalThis, offered[i]) === undefined) continue;
      defineProperty(globalThis, offered[i], { __proto__: null, configurable: false });
    }
    const scope = parse(json);
    const names = ownKeys(scope);
    for (let i = 0; i < names.length; i++) {
      const name = names[i];
      if (getOwnPropertyDescriptor(globalThis, name) !== undefined) throw new PlainError(`there is a global ${name} already`);
      if (scope[name][0] === "lazy") {
        defineProperty(globalThis, name, { __proto__: null, get: () => hostGlobal(name), enumerable: true, configurable: false });
      } else {
        define(name, build(name, scope[name]));
      }
    }
  };

  const log = (...args) => {
    let line = "";
    for (let i = 0; i < args.length; i++) line += (i > 0 ? " " : "") + text(args[i]);
    emit(TEXT, line);
  };
  const consoleOf = (methods) => {
    const console = create(null);
    for (let i = 0; i < methods.length; i++) {
      defineProperty(console, methods[i], constant(named(methods[i], (...args) => apply(log, undefined, args))));
    }
    return freeze(console);
  };
  offer("console", consoleOf(["log", "info", "warn", "error", "debug"]));

  // Takes from a bare program all that neither the language nor its host has given it, but for a console.
  const strip = () => {
    const offered = ownKeys(helpers);
    for (let i = 0; i < offered.length; i++) delete globalThis[offered[i]];
    define("console", consoleOf(["log", "warn", "error"]));
  };

  offer("text", named("text", (value) => { emit(TEXT, text(value)); }));
  offer("json", named("json", (value) => {
    const json = toJson(value);
    emit(JSON_ITEM, json === undefined ? "null" : json);
  }));

  const REASON_LENGTH = 200;
  const yieldControl = named("yield_control", (reason) =>
    request(yieldControl, "yield", reason === undefined ? none : [apply(sliceString, text(reason), [0, REASON_LENGTH])]));
  offer("yield_control", yieldControl);

  const setTimeout = named("setTimeout", (callback, delay, ...args) => {
    if (typeof callback !== "function") throw new PlainTypeError("setTimeout needs a function to call");
    const ms = min(max(PlainNumber(delay) || 0, 0), 0x7fffffff);
    // An async function, so that what the callback throws is an unhandled rejection and fails the cell.
    const fire = async () => { await apply(callback, undefined, args); };
    // Counted from 1, so that an id is never false.
    return open(setTimeout, "sleep", [ms], fire, fire, true) + 1;
  });
  offer("setTimeout", setTimeout);
  offer("clearTimeout", named("clearTimeout", (timer) => {
    if (typeof timer !== "number") return;
    const id = timer - 1;
    const entry = unsettled[id];
    if (entry === undefined || !entry.timer) return;
    delete unsettled[id];
    emit(CANCEL, id | 0);
  }));

  offer("unwrap", named("unwrap", (result) => {
    if (result === null || typeof result !== "object") return result;
    const blocks = isArray(result.content) ? result.content : none;
    let message = "";
    for (let i = 0; i < blocks.length; i++) {
      if (blocks[i]?.type === "text") message += (message === "" ? "" : "\n") + text(blocks[i].text);
    }
    if (result.isError === true) throw new PlainError(message === "" ? "the tool reported an error without a text" : message);
    if (result.structuredContent !== undefined) return result.structuredContent;
    if (!isArray(result.content)) return result;
    if (blocks.length !== 1) return message;
    try {
      return parse(message);
    } catch {
      return message;
    }
  }));

  // From `encoding.js` and `clone.js`, and the engine's own.
  for (const name of ["TextDecoder", "TextEncoder", "structuredClone"]) helpers[name] = true;
  offer("atob", freeze(atob));
  offer("btoa", freeze(btoa));

  // Neither ECMAScript nor ours. The clock of `performance` is finer than a guest may have.
  for (const name of ["performance", "queueMicrotask", "DOMException", "InternalError", Symbol.toStringTag]) {
    delete globalThis[name];
  }
  // A stack formatter would be handed this file's functions.
  defineProperty(Error, "prepareStackTrace", constant(undefined));

  // ---- What the host may call. The same numbers are in `src/bridge.rs`. -----------------------------------------------

  return (op, a, b, c) => {
    switch (op) {
      case 0: install(a); break;
      case 1: run(a); break;
      case 2: settle(a); break;
      case 3: end(FAILURE, failure("syntax", a)); break;
      case 4: conclude(); break;
      case 5:
        if (c) apply(mapDelete, rejections, [a]);
        else apply(mapSet, rejections, [a, b]);
        break;
      case 6: rest(); break;
      case 7: runToLast(a); break;
      case 8: strip(); break;
    }
  };
})
