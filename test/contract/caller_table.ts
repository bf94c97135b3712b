/** A caller's folder as a table, for builds whose context stays with the caller. */
import type { RemoteEntry, RemoteTree } from "../../lib/build/context/remote.ts";

export type Entry = Omit<RemoteEntry, "path" | "stamp" | "size"> & { text?: string };

/** Seconds since 1970; nothing here is later than the clock. */
export const EARLY = 1_600_000_000;

/** Changed at will. */
export class Table implements RemoteTree {
  identity = "me:/app";
  lazy = false;
  entriesByPath = new Map<string, Entry & { stamp: string }>();
  #stamps = 0;

  set(path: string, entry: Partial<Entry>): void {
    const folder = path.slice(0, Math.max(0, path.lastIndexOf("/")));
    if (folder !== "" && !this.entriesByPath.has(folder)) this.set(folder, { type: "directory" });
    const before = this.entriesByPath.get(path);
    const type = entry.type ?? before?.type ?? "file";
    this.entriesByPath.set(path, {
      mode: type === "directory" ? 0o755 : 0o644,
      mtime: EARLY,
      mtimeNs: 0,
      ...before,
      ...entry,
      type,
      stamp: String(this.#stamps++),
    });
  }

  remove(path: string): void {
    for (const other of [...this.entriesByPath.keys()]) {
      if (other === path || other.startsWith(`${path}/`)) this.entriesByPath.delete(other);
    }
  }

  paths(type: Entry["type"]): string[] {
    return [...this.entriesByPath].filter(([, entry]) => entry.type === type).map(([path]) => path);
  }

  async *entries() {
    const sorted = [...this.entriesByPath].sort(([a], [b]) => a < b ? -1 : 1);
    yield sorted.map(([path, { text = "", ...entry }]): RemoteEntry => ({
      path,
      ...entry,
      size: entry.type === "file" ? text.length : 0,
    }));
  }

  async *read(path: string) {
    yield new TextEncoder().encode(this.entriesByPath.get(path)!.text ?? "");
  }
}
