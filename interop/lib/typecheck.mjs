// TypeScript's opinion of declarations.
import { createRequire } from "node:module";
import { join } from "node:path";
import { typescript } from "./install.mjs";

/** As `tsc --noEmit --strict` with nothing else in sight: no types of Node.js, no browser. */
const OPTIONS = { strict: true, noEmit: true, types: [], lib: ["lib.es2022.d.ts"], target: 9 };

/** A checker of sets of files, `{name: text}`; it returns what is wrong, each with file, line, code and message. */
export async function checker() {
  const ts = createRequire(join(await typescript(), "package.json"))("typescript");
  const library = new Map();
  return (files) => {
    const host = ts.createCompilerHost(OPTIONS);
    const { getSourceFile, fileExists, readFile } = host;
    host.fileExists = (name) => name in files || fileExists(name);
    host.readFile = (name) => files[name] ?? readFile(name);
    host.getSourceFile = (name, ...rest) => {
      if (name in files) return ts.createSourceFile(name, files[name], rest[0]);
      // Its own library is parsed once for all programs.
      if (!library.has(name)) library.set(name, getSourceFile(name, ...rest));
      return library.get(name);
    };
    const program = ts.createProgram(Object.keys(files), OPTIONS, host);
    return ts.getPreEmitDiagnostics(program).map(({ file, start, code, messageText }) => ({
      file: file?.fileName ?? "",
      line: file ? file.getLineAndCharacterOfPosition(start).line + 1 : 0,
      source: file ? file.text.split("\n")[file.getLineAndCharacterOfPosition(start).line].trim().slice(0, 160) : "",
      code,
      message: ts.flattenDiagnosticMessageText(messageText, " "),
    }));
  };
}
