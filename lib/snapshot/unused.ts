/** Removes the snapshots that nothing needs, of a snapshotter that holds nothing but images for containers. */
import type { SnapshotInfo, Snapshotter } from "./snapshotter.ts";

export interface Unused {
  /** Of the snapshots' own files, as far as known. */
  bytes: number;
  items: number;
}

/**
 * Prunes committed snapshots that no active one lies on and that nobody holds; what is in use by the time of its
 * turn stays. `dryRun`: counts them only.
 */
export async function pruneUnused(
  snapshotter: Snapshotter,
  { dryRun = false, signal }: { dryRun?: boolean; signal?: AbortSignal } = {},
): Promise<Unused> {
  const committed = new Map<string, SnapshotInfo>();
  const needed = new Set<string>();
  const roots: (string | undefined)[] = [];
  for await (const info of snapshotter.list()) {
    if (info.kind === "active") roots.push(info.parent);
    else if (info.name === (info.names?.[0] ?? info.name)) committed.set(info.name, info);
  }
  roots.push(...[...committed.values()].flatMap(({ name, held }) => held ? name : []));
  for (const root of roots) {
    for (let name = root; name !== undefined; name = committed.get(name)?.parent) needed.add(name);
  }
  const left = new Map([...committed].filter(([name]) => !needed.has(name)));
  const unused: Unused = { bytes: 0, items: 0 };
  // The topmost first: what has children cannot be removed.
  for (let tops: SnapshotInfo[]; (tops = topsOf(left)).length > 0;) {
    for (const { name, size = 0 } of tops) {
      signal?.throwIfAborted();
      left.delete(name);
      if (!dryRun && !await snapshotter.prune(name)) continue;
      unused.bytes += size;
      unused.items++;
    }
  }
  return unused;
}

function topsOf(all: ReadonlyMap<string, SnapshotInfo>): SnapshotInfo[] {
  const parents = new Set([...all.values()].map(({ parent }) => parent));
  return [...all.values()].filter(({ name }) => !parents.has(name));
}
