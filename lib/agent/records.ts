/**
 * What is held, on record: an agent that was killed or replaced is followed by one that reads it. The records have
 * secrets (a spec's, the environment's): they lie in the login session's folder, in memory, for their user alone.
 */
import { ensureDir, readJson, removeTree, writeFileAtomic } from "../base/fs.ts";
import { basename, join } from "../base/path.ts";
import type { Description } from "./protocol.ts";

export interface HeldRecord {
  version: 1;
  description: Description;
  /** What the holder wants to know when it holds the same again. */
  kept?: unknown;
  /** A process that still has what `kept` names, and waits until it is taken. */
  from?: number;
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

  /** All that can be read; `unreadable` is told the others, which are removed. For the running agent alone. */
  async load(unreadable: (file: string) => void): Promise<Map<string, HeldRecord>> {
    const found = new Map<string, HeldRecord>();
    for (const [path, record] of await this.#read()) {
      if (record) found.set(basename(path).slice(0, -ENDING.length), record);
      else {
        // Others are unfinished writes of a crash.
        if (path.endsWith(ENDING)) unreadable(path);
        await removeTree(path);
      }
    }
    return found;
  }

  /** True where something that this process has waits to be taken by the running agent. */
  async waits(pid: number): Promise<boolean> {
    return (await this.#read()).some(([, record]) => record?.from === pid);
  }

  async #read(): Promise<[path: string, record: HeldRecord | undefined][]> {
    const folder = this.#folder;
    if (folder === undefined) return [];
    const entries = await Array.fromAsync(Deno.readDir(folder)).catch(() => []);
    return await Promise.all(entries.map(async ({ name }) => {
      const path = join(folder, name);
      const value = name.endsWith(ENDING)
        ? await readJson<unknown>(path).catch(() => undefined)
        : undefined;
      return [path, isRecord(value) ? value : undefined] as [string, HeldRecord | undefined];
    }));
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
