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
import { UNPACKING } from "./snapshotter.ts";

export interface SnapshotRecord {
  /** Folder under `s`: short, because overlay's options must fit in one page. */
  dir: string;
  /** Id while active; absent once committed. */
  id?: string;
  /** Names once committed; the first is the one it was committed under. */
  names: string[];
  /** The parent's folder. */
  parent?: string;
  /** The layer of this snapshot includes the parent's changes. */
  amends?: boolean;
  /** Milliseconds since 1970. */
  created: number;
  size?: number;
  volatile?: boolean;
  /** Id of the boot in which the content was written without a sync to disk. */
  unsynced?: string;
}

/** A record, with the state that only this process knows. */
export interface Entry {
  record: SnapshotRecord;
  used: number;
  /** Number of views and mounts; a pinned snapshot is not removed. */
  pins: number;
  /** Value of the snapshotter's counter at the last use; 0: not used since the start. */
  asked: number;
}

export class Records {
  readonly root: string;
  readonly entries = new Map<string, Entry>();
  readonly #names = new Map<string, Entry>();
  readonly #boot: string;
  readonly #log: Logger;
  /** Called with each removed folder. */
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

  /** Opens the folder (made if missing) and removes what a crash left half done. */
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

  /** Finds a snapshot by a name or an active id. */
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

  /** True where the snapshot's tree and all trees below it exist. */
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

  /** The number of snapshots that `dir` amends, and the folder of the snapshot below them all. */
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

  /** Reserves a folder for a new active snapshot; `save` writes the record to disk. */
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
   * leaves the old record or the new one. A power cut may damage a record that was not durable; its snapshot
   * is then lost.
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

  /** Id of this boot; marks content that is not synced to disk yet. */
  get boot(): string {
    return this.#boot;
  }

  /** Hides the snapshot at once, then removes its files. */
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
      // Somebody removed the file; its content is still in memory.
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
    for (const entry of [...this.entries.values()]) {
      if (entry.record.id?.startsWith(UNPACKING)) await this.drop(entry);
    }
    // A snapshot whose parent is gone is of no use; repeated until each has its parent.
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
