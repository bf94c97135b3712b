/** The shelf of snapshots: results of steps, and the image layers below them. */
import { type SnapshotInfo, type Snapshotter, UNPACKING } from "../../snapshot/snapshotter.ts";
import { type CacheRecords, SNAPSHOT_PREFIX } from "../solve/records.ts";
import { type CacheItem, type Shelf, SMALL_FILE } from "./shelf.ts";

/** Bytes of a snapshot's folder and record. */
const OVERHEAD = 2 * SMALL_FILE;

export class SnapshotShelf implements Shelf {
  readonly kind = "snapshots";
  #snapshotter: Snapshotter;
  #records: CacheRecords;

  constructor(snapshotter: Snapshotter, records: CacheRecords) {
    this.#snapshotter = snapshotter;
    this.#records = records;
  }

  /** Snapshots below workloads are not part of the cache and not counted. */
  async items(): Promise<CacheItem[]> {
    const committed = new Map<string, SnapshotInfo>();
    const tops: SnapshotInfo[] = [];
    for await (const info of this.#snapshotter.list()) {
      if (info.kind === "active") tops.push(info);
      else if (info.name === (info.names?.[0] ?? info.name)) committed.set(info.name, info);
    }
    const foreign = new Set<string>();
    const busy = new Set<string>();
    for (const top of tops) {
      const ours = top.name.startsWith(SNAPSHOT_PREFIX) || top.name.startsWith(UNPACKING);
      this.#below(top.parent, committed, ours ? busy : foreign);
    }
    for (const { held, parent } of committed.values()) {
      if (held) this.#below(parent, committed, busy);
    }
    const used = this.#lastUses(committed);
    return [...committed.values()].filter(({ name }) => !foreign.has(name)).map((info) => ({
      id: info.name,
      size: (info.size ?? 0) + OVERHEAD + SMALL_FILE * this.#records.count(info.name),
      used: used.get(info.name)!,
      order: this.#depth(info, committed),
      held: info.held || busy.has(info.name),
      // A step's result is found only by its record; an image's layer is found by its chain id.
      stale: (info.names ?? [info.name]).every((name) => name.startsWith(SNAPSHOT_PREFIX)) &&
        this.#records.count(info.name) === 0,
    }));
  }

  async remove(id: string): Promise<boolean> {
    if (!await this.#snapshotter.prune(id)) return false;
    await this.#records.forget(id);
    return true;
  }

  #below(from: string | undefined, all: Map<string, SnapshotInfo>, into: Set<string>): void {
    for (let name = from; name !== undefined && !into.has(name); name = all.get(name)?.parent) {
      into.add(name);
    }
  }

  #depth({ parent }: SnapshotInfo, all: Map<string, SnapshotInfo>): number {
    let depth = 0;
    for (let at = parent; at !== undefined; at = all.get(at)?.parent) depth++;
    return depth;
  }

  /** Times of last use: a snapshot was last used when one on top of it was. */
  #lastUses(all: Map<string, SnapshotInfo>): Map<string, number> {
    const used = new Map([...all.values()].map((info) => [info.name, info.used.getTime()]));
    for (const { name, parent } of all.values()) {
      const time = used.get(name)!;
      for (let at = parent; at !== undefined && (used.get(at) ?? time) < time;) {
        used.set(at, time);
        at = all.get(at)?.parent;
      }
    }
    return used;
  }
}
