/**
 * What is held, on record: an agent that was killed or replaced is followed by one that reads it. The records have
 * secrets (a spec's, the environment's): they lie in the login session's folder, in memory, for their user alone.
 */
import { ensureDir, readJson, removeTree, writeFileAtomic } from "../base/fs.ts";
import { join } from "../base/path.ts";
import type { Description } from "./protocol.ts";

export interface HeldRecord {
  version: 1;
  description: Description;
  /** What the holder wants to know when it holds the same again. */
  kept?: unknown;
}

const ENDING = ".json";

function isRecord(value: unknown): value is HeldRecord {
  const record = value as Partial<HeldRecord> | null | undefined;
  return record?.version === 1 && typeof record.description?.kind === "string" &&
    typeof record.description.name === "string" && typeof record.description.place === "string";
}

export class HeldRecords {
  readonly #folder: string | undefined;

  /** Without a folder nothing is kept. */
  constructor(folder: string | undefined) {
    this.#folder = folder;
  }

  /** All that can be read; `unreadable` is told the others, which are removed. */
  async load(unreadable: (file: string) => void): Promise<Map<string, HeldRecord>> {
    const found = new Map<string, HeldRecord>();
    if (this.#folder === undefined) return found;
    const entries = await Array.fromAsync(Deno.readDir(this.#folder)).catch(() => []);
    for (const { name } of entries) {
      const path = join(this.#folder, name);
      const record = name.endsWith(ENDING)
        ? await readJson<unknown>(path).catch(() => undefined)
        : undefined;
      if (isRecord(record)) found.set(name.slice(0, -ENDING.length), record);
      else {
        if (name.endsWith(ENDING)) unreadable(path);
        await removeTree(path);
      }
    }
    return found;
  }

  async save(id: string, record: HeldRecord): Promise<void> {
    if (this.#folder === undefined) return;
    await ensureDir(this.#folder, 0o700);
    await writeFileAtomic(join(this.#folder, id + ENDING), JSON.stringify(record), { mode: 0o600 });
  }

  async remove(id: string): Promise<void> {
    if (this.#folder !== undefined) await removeTree(join(this.#folder, id + ENDING));
  }
}

/** True where an agent left something behind. */
export async function hasRecords(folder: string | undefined): Promise<boolean> {
  if (folder === undefined) return false;
  const entries = await Array.fromAsync(Deno.readDir(folder)).catch(() => []);
  return entries.some(({ name }) => name.endsWith(ENDING));
}
