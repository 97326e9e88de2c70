// Values that leave a guest: JSON, always. Runs before `prelude.js`, which takes what it needs and leaves nothing behind, and
// keeps the same rules: everything here works after hostile code has replaced all that it can reach.
globalThis.pincerValues = (function () {
  "use strict";

  const { apply, ownKeys } = Reflect;
  const { create, defineProperty, freeze, getOwnPropertyDescriptor } = Object;
  const { parse, stringify } = JSON;
  const { isArray, from: arrayFrom } = Array;
  const { isError } = Error;
  const { isView } = ArrayBuffer;
  const PlainPromise = Promise;
  const PlainString = String;
  const { entries: mapEntries } = Map.prototype;
  const { values: setValues } = Set.prototype;
  const { values: typedValues } = Object.getPrototypeOf(Uint8Array.prototype);
  const { valueOf: bigIntValue } = BigInt.prototype;
  const { toString: tagMethod } = Object.prototype;
  const { resolve: promiseResolve } = Promise;
  const getter = (prototype, name) => getOwnPropertyDescriptor(prototype, name).get;
  const regexSource = getter(RegExp.prototype, "source"), regexFlags = getter(RegExp.prototype, "flags");
  const bufferBytes = getter(ArrayBuffer.prototype, "byteLength"), viewBytes = getter(DataView.prototype, "byteLength");

  const none = freeze([]);
  const own = (value) => ({ __proto__: null, value, enumerable: true, writable: true, configurable: true });

  const nameOf = (fn) => {
    const name = fn.name;
    return typeof name === "string" && name !== "" ? ` ${name}` : "";
  };

  // What an object is, by its own word.
  const tagOf = (item) => apply(tagMethod, item, none);

  // Deeper values than this cannot be read by others. The same number is in `pincer_json`.
  const MOST_DEPTH = 100;
  const tooDeep = freeze({ __proto__: null });
  // Stands for a value that is too deep: the host refuses it for the same reason, and it is never all walked.
  const DEEP = "[".repeat(MOST_DEPTH + 1) + "]".repeat(MOST_DEPTH + 1);

  // What has nothing to show says what it is.
  const described = {
    __proto__: null,
    "[object Promise]": (item) => apply(promiseResolve, PlainPromise, [item]) === item ? "[promise: await it]" : item,
    "[object RegExp]": (item) => `/${apply(regexSource, item, none)}/${apply(regexFlags, item, none)}`,
    "[object ArrayBuffer]": (item) => `[ArrayBuffer of ${apply(bufferBytes, item, none)} bytes: pass a Uint8Array]`,
    "[object DataView]": (item) => `[DataView of ${apply(viewBytes, item, none)} bytes: pass a Uint8Array]`,
    "[object WeakMap]": () => "[WeakMap]",
    "[object WeakSet]": () => "[WeakSet]",
    "[object WeakRef]": () => "[WeakRef]",
    "[object Generator]": () => "[generator: spread it]",
    "[object AsyncGenerator]": () => "[async generator: iterate it]",
  };

  // Errors, maps, sets and binary arrays have no useful JSON form of their own: `JSON.stringify` makes `{}` of them.
  const plain = (item) => {
    if (isArray(item)) return item;
    if (isError(item)) {
      const copy = { __proto__: null, name: text(item.name), message: text(item.message) };
      const keys = ownKeys(item);
      for (let i = 0; i < keys.length; i++) {
        const key = keys[i];
        if (typeof key === "string" && key !== "stack") defineProperty(copy, key, own(item[key]));
      }
      return copy;
    }
    const tag = tagOf(item);
    const list = isView(item) && tag !== "[object DataView]" ? typedValues : { __proto__: null, "[object Map]": mapEntries, "[object Set]": setValues }[tag];
    try {
      if (list !== undefined) return arrayFrom(apply(list, item, none));
      if (tag === "[object BigInt]") return `${apply(bigIntValue, item, none)}`;
      if (described[tag] !== undefined) return described[tag](item);
    } catch {
      // It only said it was one, or it is a view without elements.
    }
    return item;
  };

  const toJson = (value) => {
    try {
      return walkedJson(value);
    } catch (reason) {
      if (reason === tooDeep) return DEEP;
      throw reason;
    }
  };

  const walkedJson = (value) => {
    // The objects between the root and the current item: as found, and as `stringify` walks them. Not arrays, whose
    // prototype could have setters by now.
    const found = create(null), walked = create(null);
    let depth = 0;
    return stringify(value, function (_key, item) {
      switch (typeof item) {
        case "bigint": return `${item}`;
        case "function": return `[function${nameOf(item)}]`;
        case "symbol": return `[${PlainString(item)}]`;
        case "object": break;
        default: return item;
      }
      if (item === null) return item;
      while (depth > 0 && walked[depth - 1] !== this) depth--;
      for (let i = 0; i < depth; i++) if (found[i] === item) return "[circular]";
      const form = plain(item);
      if (form === null || typeof form !== "object") return form;
      if (depth === MOST_DEPTH) throw tooDeep;
      found[depth] = item;
      walked[depth] = form;
      depth++;
      return form;
    });
  };

  // A list of values. By hand, because guest code can give every array a `toJSON`.
  const listJson = (values, first) => {
    let json = first === undefined ? "" : toJson(first);
    for (let i = 0; i < values.length; i++) json += (json === "" ? "" : ",") + (toJson(values[i]) ?? "null");
    return `[${json}]`;
  };

  // Errors, and what looks like one: some of the engine's own are not `Error`s.
  const errorLike = (value) =>
    isError(value) ||
    (value !== null && typeof value === "object" && typeof value.name === "string" && typeof value.message === "string");

  // A value as a person would want to read it in a log.
  function text(value) {
    if (typeof value === "string") return value;
    if (value === undefined) return "undefined";
    if (errorLike(value)) return `${text(value.name)}: ${text(value.message)}`;
    const json = toJson(value);
    if (json === DEEP) return `[nested deeper than ${MOST_DEPTH} levels]`;
    return json === undefined ? "undefined" : json[0] === '"' ? parse(json) : json;
  }

  return { __proto__: null, toJson, listJson, errorLike, text };
})();
