// TextEncoder and TextDecoder for UTF-8, the one encoding a guest needs. Not part of the bridge: it may use prototypes that
// guest code can change, because what then breaks is that guest's own text.
(function () {
  "use strict";

  const LABELS = ["utf-8", "utf8", "unicode-1-1-utf-8"];

  const bytesOf = (input) => {
    if (input === undefined) return new Uint8Array(0);
    if (ArrayBuffer.isView(input)) return new Uint8Array(input.buffer, input.byteOffset, input.byteLength);
    if (input instanceof ArrayBuffer || input instanceof SharedArrayBuffer) return new Uint8Array(input);
    throw new TypeError("TextDecoder.decode needs an ArrayBuffer or a view of one");
  };

  // Writes as much of `source` as fits into `target`, whole code points only.
  const encodeInto = (source, target) => {
    let read = 0, written = 0;
    while (read < source.length) {
      let point = source.codePointAt(read);
      const units = point > 0xffff ? 2 : 1;
      if (point >= 0xd800 && point <= 0xdfff) point = 0xfffd;
      const size = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
      if (written + size > target.length) break;
      if (size === 1) {
        target[written] = point;
      } else {
        for (let i = size - 1; i > 0; i--, point >>= 6) target[written + i] = 0x80 | (point & 0x3f);
        target[written] = ((0xf00 >> size) & 0xff) | point;
      }
      read += units;
      written += size;
    }
    return { read, written };
  };

  class TextEncoder {
    get encoding() { return "utf-8"; }
    encode(input = "") {
      const source = String(input);
      const room = new Uint8Array(source.length * 3);
      return room.slice(0, encodeInto(source, room).written);
    }
    encodeInto(source, target) { return encodeInto(String(source), target); }
  }

  // How many continuation bytes follow `lead`, and the range of the first of them (Unicode's table 3-7).
  const sequence = (lead) => {
    if (lead >= 0xc2 && lead <= 0xdf) return [1, 0x80, 0xbf];
    if (lead === 0xe0) return [2, 0xa0, 0xbf];
    if (lead === 0xed) return [2, 0x80, 0x9f];
    if (lead >= 0xe1 && lead <= 0xef) return [2, 0x80, 0xbf];
    if (lead === 0xf0) return [3, 0x90, 0xbf];
    if (lead >= 0xf1 && lead <= 0xf3) return [3, 0x80, 0xbf];
    if (lead === 0xf4) return [3, 0x80, 0x8f];
    return undefined;
  };

  class TextDecoder {
    #fatal;
    #ignoreBOM;
    #rest = [];
    #started = false;

    constructor(label = "utf-8", { fatal = false, ignoreBOM = false } = {}) {
      if (!LABELS.includes(String(label).trim().toLowerCase())) {
        throw new RangeError(`TextDecoder knows only utf-8, not ${label}`);
      }
      this.#fatal = Boolean(fatal);
      this.#ignoreBOM = Boolean(ignoreBOM);
    }
    get encoding() { return "utf-8"; }
    get fatal() { return this.#fatal; }
    get ignoreBOM() { return this.#ignoreBOM; }

    decode(input, { stream = false } = {}) {
      let bytes = bytesOf(input);
      if (this.#rest.length > 0) {
        const joined = new Uint8Array(this.#rest.length + bytes.length);
        joined.set(this.#rest);
        joined.set(bytes, this.#rest.length);
        bytes = joined;
      }
      this.#rest = [];
      const parts = [];
      let units = [];
      const push = (point) => {
        if (point > 0xffff) units.push(0xd800 + ((point - 0x10000) >> 10), 0xdc00 + ((point - 0x10000) & 0x3ff));
        else units.push(point);
        if (units.length > 4000) {
          parts.push(String.fromCharCode(...units));
          units = [];
        }
      };
      const invalid = () => {
        if (this.#fatal) throw new TypeError("the bytes are not valid UTF-8");
        push(0xfffd);
      };
      let at = 0;
      while (at < bytes.length) {
        const lead = bytes[at];
        if (lead < 0x80) {
          push(lead);
          at++;
          continue;
        }
        const shape = sequence(lead);
        if (shape === undefined) {
          invalid();
          at++;
          continue;
        }
        const [count, low, high] = shape;
        let point = lead & (0x3f >> count), good = 0;
        while (good < count && at + 1 + good < bytes.length) {
          const next = bytes[at + 1 + good];
          if (next < (good === 0 ? low : 0x80) || next > (good === 0 ? high : 0xbf)) break;
          point = (point << 6) | (next & 0x3f);
          good++;
        }
        if (good === count) push(point);
        else if (stream && at + 1 + good === bytes.length) {
          this.#rest = Array.from(bytes.subarray(at));
          break;
        } else invalid();
        at += 1 + good;
      }
      parts.push(String.fromCharCode(...units));
      const decoded = parts.join("");
      const first = !this.#started;
      this.#started = stream && (this.#started || decoded !== "");
      return first && !this.#ignoreBOM && decoded[0] === "\ufeff" ? decoded.slice(1) : decoded;
    }
  }

  for (const type of [TextEncoder, TextDecoder]) {
    Object.freeze(type.prototype);
    Object.freeze(type);
    // The prelude makes them firm.
    Object.defineProperty(globalThis, type.name, { value: type, enumerable: true, writable: false, configurable: true });
  }
})();
