/** Bounds a file cache: what was not opened for the longest time goes first. */
import { join } from "node:path";
import { DATA, INDEX } from "./content.ts";

/** Bytes of a block in a file's count. */
const BLOCK = 512;
/** Milliseconds after which a half of an entry counts as left by a crash. */
const STALE_MS = 60_000;

interface Entry {
  path: string;
  /** Bytes on the disk. */
  size: number;
  /** When it was opened last, in milliseconds since 1970; undefined: there is no index. */
  used?: number;
  /** When its data was written last. */
  written: number;
}

async function entriesOf(folder: string): Promise<Entry[]> {
  const entries = new Map<string, Entry>();
  const names = await Array.fromAsync(Deno.readDir(folder)).catch(() => []);
  for (const { name } of names) {
    const end = [DATA, INDEX].find((end) => name.endsWith(end));
    if (end === undefined) continue;
    const info = await Deno.lstat(join(folder, name)).catch(() => undefined);
    if (!info) continue;
    const path = join(folder, name.slice(0, -end.length));
    const entry = entries.get(path) ?? { path, size: 0, written: 0 };
    entry.size += (info.blocks ?? Math.ceil(info.size / BLOCK)) * BLOCK;
    const time = info.mtime?.getTime() ?? 0;
    if (end === INDEX) entry.used = time;
    else entry.written = time;
    entries.set(path, entry);
  }
  return [...entries.values()];
}

/** The index first: without it the data is nothing. Who has them open goes on with them. */
async function remove({ path }: Entry): Promise<void> {
  for (const end of [INDEX, DATA]) await Deno.remove(path + end).catch(() => {/* it is gone */});
}

/** Removes what exceeds `maxBytes`, and what a crash has left. Returns the bytes on the disk that stay. */
export async function collect(folder: string, maxBytes: number): Promise<number> {
  let total = 0;
  const kept: Entry[] = [];
  for (const entry of await entriesOf(folder)) {
    if (entry.used === undefined && entry.written < Date.now() - STALE_MS) await remove(entry);
    else {
      total += entry.size;
      kept.push(entry);
    }
  }
  kept.sort((a, b) => (a.used ?? a.written) - (b.used ?? b.written));
  for (const entry of kept) {
    if (total <= maxBytes) break;
    await remove(entry);
    total -= entry.size;
  }
  return total;
}
