/**
 * What is known of each snapshot, kept in memory and in one small file per snapshot, replaced whole:
 *
 *     s/<n>/meta.json   the record; a folder without one is a leftover
 *     s/<n>/fs          the tree, or overlay's upper folder
 *     s/<n>/work        overlay's work folder, while active
 *     trash/            what is being removed
 *     tmp/              layers on their way in
 */
import { exists, readJson, removeTree, writeFileAtomic, writeJsonInPlace } from "../base/fs.ts";
import type { Logger } from "../base/log.ts";

export interface SnapshotRecord {
  /** Folder under `s`: short, because overlay's options must fit in one page. */
  dir: string;
  /** Id while active; absent once committed. */
  id?: string;
  /** Names once committed; the first is the one it was committed under. */
  names: string[];
  /** Folder of the parent. */
  parent?: string;
  /** The parent's changes are part of this one's layer. */
  amends?: boolean;
  /** Milliseconds since 1970. */
  created: number;
  size?: number;
  volatile?: boolean;
  /** Boot during which the content was written without waiting for the disk. */
  unsynced?: string;
}

/** A record and what only this process knows of it. */
export interface Entry {
  record: SnapshotRecord;
  used: number;
  /** Views and mounts that keep it from being removed. */
  pins: number;
  /** Turn of the snapshotter's counter at which somebody last asked for it; 0: not since the start. */
  asked: number;
}

export class Records {
  readonly root: string;
  readonly entries = new Map<string, Entry>();
  readonly #names = new Map<string, Entry>();
  readonly #boot: string;
  readonly #log: Logger;
  /** Called with each folder that is gone. */
  readonly #discarded: (dir: string) => Promise<void>;
  #next = 1;

  private constructor(
    root: string,
    boot: string,
    log: Logger,
    discarded: (dir: string) => Promise<void>,
  ) {
    this.root = root;
    this.#boot = boot;
    this.#log = log;
    this.#discarded = discarded;
  }

  /** Reads the folder (made if missing) and clears what a crash left half done. */
  static async open(
    root: string,
    log: Logger,
    discarded: (dir: string) => Promise<void> = async () => {},
  ): Promise<Records> {
    await Deno.mkdir(`${root}/s`, { recursive: true, mode: 0o700 });
    await Deno.mkdir(`${root}/trash`, { recursive: true, mode: 0o700 });
    await removeTree(`${root}/tmp`);
    await Deno.mkdir(`${root}/tmp`, { mode: 0o700 });
    const boot = (await Deno.readTextFile("/proc/sys/kernel/random/boot_id")).trim();
    const records = new Records(await Deno.realPath(root), boot, log, discarded);
    await records.#load();
    return records;
  }

  folder(dir: string): string {
    return `${this.root}/s/${dir}`;
  }

  tree(dir: string): string {
    return `${this.root}/s/${dir}/fs`;
  }

  /** By name or active id. */
  find(name: string): Entry | undefined {
    return this.#names.get(name);
  }

  /** The trees under `dir`, nearest first. */
  lower(dir: string): string[] {
    const trees: string[] = [];
    for (
      let at = this.entries.get(dir)?.record.parent;
      at !== undefined;
      at = this.entries.get(at)?.record.parent
    ) trees.push(this.tree(at));
    return trees;
  }

  /** True where its tree and all that it lies on are there. */
  isWhole({ record: { dir } }: Entry): boolean {
    return [this.tree(dir), ...this.lower(dir)].every((path) => {
      try {
        return Deno.statSync(path).isDirectory;
      } catch (error) {
        if (error instanceof Deno.errors.NotFound) return false;
        throw error;
      }
    });
  }

  /** The snapshots that `dir` amends, nearest first, and the folder of what they all lie on. */
  amended(dir: string): { count: number; base?: string } {
    let count = 0;
    let record = this.entries.get(dir)?.record;
    for (; record?.amends; record = this.entries.get(record.parent!)?.record) count++;
    return { count, base: record?.parent };
  }

  hasChildren(dir: string): boolean {
    for (const { record } of this.entries.values()) if (record.parent === dir) return true;
    return false;
  }

  /** Reserves a folder for a new active snapshot; it is on disk once `save` is called. */
  reserve(fields: Pick<SnapshotRecord, "id" | "parent" | "amends" | "volatile">): Entry {
    const now = Date.now();
    const record: SnapshotRecord = {
      ...fields,
      dir: (this.#next++).toString(36),
      names: [],
      created: now,
      unsynced: fields.volatile ? this.#boot : undefined,
    };
    const entry = { record, used: now, pins: 0, asked: 0 };
    this.#index(entry);
    return entry;
  }

  /**
   * Replaces the record by `changed`, on disk and then in memory; `durable` waits for the disk. A crash
   * leaves the old record or the new one; after a power cut one that was not durable may be damaged, and
   * its snapshot with it.
   */
  async save(entry: Entry, changed: SnapshotRecord, durable: boolean): Promise<void> {
    const path = `${this.folder(changed.dir)}/meta.json`;
    const document = { version: 1, ...changed };
    if (durable) await writeFileAtomic(path, JSON.stringify(document));
    else writeJsonInPlace(path, document);
    this.#forget(entry);
    entry.record = changed;
    this.#index(entry);
  }

  /** The mark of content that is not on disk yet. */
  get boot(): string {
    return this.#boot;
  }

  /** Takes the snapshot out of sight at once, then removes its files. */
  async drop(entry: Entry): Promise<void> {
    this.#forget(entry);
    await this.#discard(entry.record.dir);
  }

  async touch(entry: Entry): Promise<void> {
    entry.used = Date.now();
    const time = new Date(entry.used);
    try {
      Deno.utimeSync(`${this.folder(entry.record.dir)}/meta.json`, time, time);
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
      // Somebody took the file away; what it said is known here.
      await this.save(entry, entry.record, false);
    }
  }

  #index(entry: Entry): void {
    const { record } = entry;
    this.entries.set(record.dir, entry);
    for (const name of record.names) this.#names.set(name, entry);
    if (record.id !== undefined) this.#names.set(record.id, entry);
  }

  #forget(entry: Entry): void {
    const { record } = entry;
    this.entries.delete(record.dir);
    for (const name of record.names) this.#names.delete(name);
    if (record.id !== undefined) this.#names.delete(record.id);
  }

  async #discard(dir: string): Promise<void> {
    const away = `${this.root}/trash/${dir}-${crypto.randomUUID().slice(0, 8)}`;
    try {
      await Deno.rename(this.folder(dir), away);
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return;
      throw error;
    }
    await this.#discarded(dir);
    await removeTree(away);
  }

  async #load(): Promise<void> {
    for await (const { name } of Deno.readDir(`${this.root}/trash`)) {
      await removeTree(`${this.root}/trash/${name}`);
    }
    for await (const { name } of Deno.readDir(`${this.root}/s`)) {
      const number = parseInt(name, 36);
      if (number >= this.#next) this.#next = number + 1;
      const entry = await this.#read(name);
      if (entry) this.#index(entry);
      else await this.#discard(name);
    }
    // What lies on something that is gone is worth nothing; repeat until each has its parent.
    for (let lost = true; lost;) {
      lost = false;
      for (const entry of [...this.entries.values()]) {
        const { parent, dir } = entry.record;
        if (parent === undefined || this.entries.has(parent)) continue;
        this.#log.warn("snapshot dropped: its parent did not survive a crash", { dir });
        await this.drop(entry);
        lost = true;
      }
    }
  }

  async #read(dir: string): Promise<Entry | undefined> {
    const path = `${this.folder(dir)}/meta.json`;
    let record: SnapshotRecord | undefined;
    try {
      record = await readJson<SnapshotRecord>(path);
    } catch (error) {
      if (!(error instanceof SyntaxError || error instanceof Deno.errors.IsADirectory)) throw error;
    }
    if (
      !record || record.dir !== dir || !Array.isArray(record.names) || !await exists(this.tree(dir))
    ) return undefined;
    if (record.unsynced !== undefined && record.unsynced !== this.#boot) {
      this.#log.warn("snapshot dropped: the machine went down before it was on disk", {
        name: record.names[0] ?? record.id,
      });
      return undefined;
    }
    const { mtime } = await Deno.stat(path);
    return { record, used: mtime?.getTime() ?? record.created, pins: 0, asked: 0 };
  }
}
