// structuredClone: a deep copy of plain data, with cycles and shared references kept. Like encoding.js it is a convenience
// for the guest and not part of the bridge.
(function () {
  "use strict";

  const ERRORS = { Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError };

  const refuse = (what) => {
    const error = new Error(`${what} cannot be cloned`);
    error.name = "DataCloneError";
    throw error;
  };

  const tagOf = (value) => Object.prototype.toString.call(value).slice(8, -1);

  const clone = (value, seen) => {
    if (typeof value === "function") refuse("a function");
    if (typeof value === "symbol") refuse("a symbol");
    if (value === null || typeof value !== "object") return value;
    if (seen.has(value)) return seen.get(value);
    const keep = (copy) => {
      seen.set(value, copy);
      return copy;
    };
    if (Array.isArray(value)) return copyOwn(value, keep(new Array(value.length)), seen);
    if (Error.isError(value)) {
      const type = Object.hasOwn(ERRORS, value.name) ? ERRORS[value.name] : Error;
      const copy = keep(new type(String(value.message)));
      for (const key of ["stack", "cause"]) {
        if (!Object.hasOwn(value, key)) continue;
        Object.defineProperty(copy, key, { value: clone(value[key], seen), writable: true, configurable: true });
      }
      return copy;
    }
    if (value instanceof Date) return keep(new Date(value.getTime()));
    if (value instanceof RegExp) return keep(new RegExp(value.source, value.flags));
    if (value instanceof ArrayBuffer) return keep(value.slice(0));
    if (ArrayBuffer.isView(value)) {
      const buffer = clone(value.buffer, seen);
      const length = value instanceof DataView ? value.byteLength : value.length;
      return keep(new globalThis[tagOf(value)](buffer, value.byteOffset, length));
    }
    if (value instanceof Map) {
      const copy = keep(new Map());
      for (const [key, item] of [...value]) copy.set(clone(key, seen), clone(item, seen));
      return copy;
    }
    if (value instanceof Set) {
      const copy = keep(new Set());
      for (const item of [...value]) copy.add(clone(item, seen));
      return copy;
    }
    const tag = tagOf(value);
    if (tag === "Boolean" || tag === "Number" || tag === "String" || tag === "BigInt") return keep(Object(value.valueOf()));
    for (const type of [Promise, WeakMap, WeakSet, WeakRef, SharedArrayBuffer]) {
      if (value instanceof type) refuse(`a ${type.name}`);
    }
    return copyOwn(value, keep({}), seen);
  };

  const copyOwn = (from, to, seen) => {
    for (const key of Object.keys(from)) {
      const item = clone(from[key], seen);
      Object.defineProperty(to, key, { value: item, enumerable: true, writable: true, configurable: true });
    }
    return to;
  };

  const structuredClone = Object.freeze(function structuredClone(value, options) {
    if (options?.transfer?.length > 0) refuse("a transferred object");
    return clone(value, new Map());
  });
  // The prelude makes it firm.
  Object.defineProperty(globalThis, "structuredClone", {
    value: structuredClone, enumerable: true, writable: false, configurable: true,
  });
})();
