// Folders for the time of one run.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Gives `use` a new folder, which is gone afterwards. */
export async function withFolder(use) {
  const folder = mkdtempSync(join(tmpdir(), "pincer-interop-"));
  try {
    return await use(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
