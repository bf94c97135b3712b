/** The Snapshotter of every driver: names, parents, life cycle, durability. */
import { SvcError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { Mutex } from "../base/mutex.ts";
import { syncFileSystem } from "../sys/fd.ts";
import { unmount, unmountElsewhere } from "../sys/mount.ts";
import { isMounted } from "../sys/mountinfo.ts";
import type { ArchivePart } from "../oci/tar_blocks.ts";
import type { DiffSource } from "./diff_tree.ts";
import type { SnapshotDriver, TreePlace } from "./driver.ts";
import { guarded, mountPoint, unmountFully } from "./mount_points.ts";
import { type Entry, Records } from "./records.ts";
import type {
  ActiveSnapshot,
  AppliedLayer,
  ApplyOptions,
  CommitOptions,
  DiffOptions,
  LayerFile,
  PrepareOptions,
  SnapshotInfo,
  Snapshotter,
} from "./snapshotter.ts";
import { applyLayer, diffLayer, sizeOfTree } from "./tree_jobs.ts";

export class TreeSnapshotter implements Snapshotter {
  readonly driver: string;
  readonly scratch: string;
  #driver: SnapshotDriver;
  #records: Records;
  /** Serialises changes of names and parents; long work is done without the lock. */
  #lock = new Mutex();
  #mounted = new Map<string, Set<string>>();
  /** Counts uses; unlike a clock it never steps back. */
  #turn = 0;
  /** The value of {@linkcode #turn} at which each `use` began. */
  #uses = new Set<{ since: number }>();

  #log: Logger;

  private constructor(driver: SnapshotDriver, records: Records, log: Logger) {
    this.driver = driver.name;
    this.scratch = `${records.root}/tmp`;
    this.#driver = driver;
    this.#records = records;
    this.#log = log;
  }

  /** Opens the snapshots in `root` (made if missing). Only one process may have them open. */
  static async open(root: string, driver: SnapshotDriver, log: Logger): Promise<TreeSnapshotter> {
    return new TreeSnapshotter(
      driver,
      await Records.open(root, log, async (dir) => await driver.discard?.(dir)),
      log,
    );
  }

  async stat(name: string): Promise<SnapshotInfo | undefined> {
    const entry = this.#records.find(name);
    if (!entry) return undefined;
    // A snapshot whose files somebody removed is dropped: it is made again, instead of failing until a
    // restart.
    if (entry.record.id === undefined && entry.pins === 0 && !this.#records.isWhole(entry)) {
      await this.#records.drop(entry);
      return undefined;
    }
    return this.#info(name, this.#ask(entry));
  }

  async prepare(
    id: string,
    parent?: string,
    options: PrepareOptions = {},
  ): Promise<ActiveSnapshot> {
    const entry = await this.#lock.run(() => {
      if (this.#records.find(id)) {
        throw new SvcError("conflict", `Cannot prepare snapshot ${id}: the name is taken`);
      }
      const base = parent === undefined ? undefined : this.#committed(parent, "prepare on");
      const below = options.amend === undefined ? base : this.#amended(options.amend, base);
      // From here on the parent has a child and cannot be removed.
      return this.#ask(this.#records.reserve({
        id,
        parent: below?.record.dir,
        amends: below !== base || undefined,
        volatile: options.volatile || undefined,
      }));
    });
    try {
      Deno.mkdirSync(this.#records.folder(entry.record.dir), { mode: 0o700, recursive: true });
      await this.#driver.create(this.#place(entry));
      await this.#records.save(entry, entry.record, false);
      const below = entry.record.parent && this.#records.entries.get(entry.record.parent);
      if (below) await this.#records.touch(below);
    } catch (error) {
      await this.#records.drop(entry).catch(() => {/* removed at the next start */});
      throw error;
    }
    return this.#active(entry);
  }

  async active(id: string): Promise<ActiveSnapshot | undefined> {
    const entry = this.#records.find(id);
    return entry?.record.id === id ? this.#active(entry) : undefined;
  }

  async apply(
    active: ActiveSnapshot,
    layer: ReadableStream<Uint8Array> | LayerFile,
    options: ApplyOptions = {},
  ): Promise<AppliedLayer> {
    const entry = this.#activeEntry(active, "unpack into");
    const { root, lower, overlay } = this.#driver.source(this.#place(entry));
    const target = { root, lower: overlay ? lower : [], overlay };
    const applied = await applyLayer(target, layer, options);
    if (applied.skippedDevices > 0) {
      const { diffID: layer, skippedDevices: devices } = applied;
      this.#log.warn("devices of a layer are left out: a user namespace cannot create them", {
        layer,
        devices,
      });
    }
    return applied;
  }

  async commit(active: ActiveSnapshot, name: string, options: CommitOptions = {}): Promise<void> {
    const entry = this.#activeEntry(active, "commit");
    const { dir } = entry.record;
    if (await this.#isMounted(dir)) {
      throw new SvcError("conflict", `Cannot commit snapshot ${active.id}: it is still mounted`);
    }
    if (this.#records.find(name)) return await this.#dropActive(entry, name);
    const place = this.#place(entry);
    const size = await sizeOfTree(
      this.#driver.source(place).root,
      `Cannot commit snapshot ${active.id}`,
      options.signal,
    );
    await this.#driver.freeze(place);
    if (!options.lazy) await this.sync();
    const done = await this.#lock.run(async () => {
      const there = this.#records.find(name);
      if (there && there !== entry) return false;
      const { id: _id, volatile: _volatile, ...rest } = entry.record;
      const unsynced = options.lazy ? this.#records.boot : undefined;
      this.#ask(entry);
      await this.#records.save(entry, { ...rest, names: [name], size, unsynced }, !options.lazy);
      return true;
    });
    if (!done) await this.#dropActive(entry, name);
  }

  async alias(name: string, existing: string): Promise<void> {
    await this.#lock.run(async () => {
      const entry = this.#committed(existing, "name");
      const there = this.#records.find(name);
      if (there?.record.id !== undefined) {
        throw new SvcError("conflict", `Cannot name snapshot ${name}: an active one is called so`);
      }
      if (there) return;
      const { record } = entry;
      const changed = { ...record, names: [...record.names, name] };
      await this.#records.save(entry, changed, record.unsynced === undefined);
    });
  }

  async remove(name: string): Promise<void> {
    const entry = await this.#lock.run(async () => {
      const found = this.#records.find(name);
      if (!found) return undefined;
      const { record } = found;
      if (record.names.length > 1) {
        const names = record.names.filter((other) => other !== name);
        await this.#records.save(found, { ...record, names }, record.unsynced === undefined);
        return undefined;
      }
      const refuse = (why: string) =>
        new SvcError("conflict", `Cannot remove snapshot ${name}: ${why}`);
      if (this.#records.hasChildren(record.dir)) throw refuse("others are built on it");
      if (found.pins > 0) throw refuse("it is in use");
      return found;
    });
    if (!entry) return;
    for (const target of this.#mounted.get(entry.record.dir) ?? []) {
      unmount(target, { detach: true });
    }
    this.#mounted.delete(entry.record.dir);
    await this.#records.drop(entry);
  }

  use(): Disposable {
    const use = { since: ++this.#turn };
    this.#uses.add(use);
    return { [Symbol.dispose]: () => void this.#uses.delete(use) };
  }

  async prune(name: string): Promise<boolean> {
    const dropped = await this.#lock.run(() => {
      const found = this.#records.find(name);
      if (!found || found.record.id !== undefined) return undefined;
      if (this.#held(found) || this.#records.hasChildren(found.record.dir)) return undefined;
      // The snapshot is hidden before other work runs; its files are removed after the lock is released.
      return { files: this.#records.drop(found) };
    });
    await dropped?.files;
    return dropped !== undefined;
  }

  async view(name: string, target: string): Promise<AsyncDisposable> {
    const entry = this.#committed(name, "view");
    entry.pins++;
    let where: string;
    try {
      where = mountPoint(target);
      await guarded(target, () => this.#driver.view(this.#place(entry), where));
    } catch (error) {
      entry.pins--;
      throw error;
    }
    let open = true;
    return {
      [Symbol.asyncDispose]: async () => {
        if (!open) return;
        open = false;
        await unmountElsewhere(where, { detach: true });
        entry.pins--;
      },
    };
  }

  diff(name: string, options: DiffOptions = {}): AsyncIterable<ArchivePart> {
    return diffLayer(this.#changes(name, options), options);
  }

  #changes(name: string, { epoch }: DiffOptions): DiffSource {
    const entry = this.#records.find(name);
    if (!entry) throw missing("pack", name);
    return { ...this.#driver.source(this.#place(this.#ask(entry))), epoch };
  }

  async *list(): AsyncIterable<SnapshotInfo> {
    for (const entry of [...this.#records.entries.values()]) {
      const { names, id } = entry.record;
      for (const name of id === undefined ? names : [id]) yield this.#info(name, entry);
    }
  }

  async touch(name: string): Promise<void> {
    const entry = this.#records.find(name);
    if (!entry) throw missing("touch", name);
    await this.#records.touch(this.#ask(entry));
  }

  async sync(): Promise<void> {
    // The sync below covers only what was committed before it.
    const waiting = [...this.#records.entries.values()].filter((entry) =>
      entry.record.id === undefined && entry.record.unsynced !== undefined
    );
    await syncFileSystem(this.#records.root);
    await this.#driver.sync?.();
    if (waiting.length === 0) return;
    await this.#lock.run(async () => {
      for (const entry of waiting) {
        const { unsynced, ...rest } = entry.record;
        const gone = !this.#records.entries.has(rest.dir);
        if (unsynced !== undefined && !gone) await this.#records.save(entry, rest, false);
      }
    });
    // At the next start a record still marked "not synced" would be dropped with all snapshots on top: the
    // cleared marks must reach the disk too.
    await syncFileSystem(this.#records.root);
  }

  /** True while a mount of this snapshotter exists. Others may have unmounted it, so the kernel is asked. */
  async #isMounted(dir: string): Promise<boolean> {
    for (const target of this.#mounted.get(dir) ?? []) {
      if (await isMounted(target)) return true;
      this.#mounted.get(dir)!.delete(target);
    }
    return false;
  }

  async #dropActive(entry: Entry, name: string): Promise<void> {
    await this.#records.drop(entry);
    const kept = this.#records.find(name);
    if (kept) await this.#records.touch(this.#ask(kept));
  }

  #ask(entry: Entry): Entry {
    entry.asked = ++this.#turn;
    return entry;
  }

  #held({ pins, asked }: Entry): boolean {
    return pins > 0 || [...this.#uses].some(({ since }) => asked > since);
  }

  #place(entry: Entry): TreePlace {
    const { dir } = entry.record;
    return {
      root: `${this.#records.root}/s`,
      folder: this.#records.folder(dir),
      lower: this.#records.lower(dir),
      amended: this.#records.amended(dir).count,
    };
  }

  #info(name: string, entry: Entry): SnapshotInfo {
    const { record, used } = entry;
    const parent = record.parent && this.#records.entries.get(record.parent)?.record.names[0];
    return {
      name,
      kind: record.id === undefined ? "committed" : "active",
      parent: parent || undefined,
      size: record.size,
      created: new Date(record.created),
      used: new Date(used),
      names: record.names,
      held: this.#held(entry),
    };
  }

  #committed(name: string, verb: string): Entry {
    const entry = this.#records.find(name);
    if (!entry || entry.record.id !== undefined) throw missing(verb, name);
    return this.#ask(entry);
  }

  /** The snapshot to amend; it must lie on `base`. */
  #amended(name: string, base: Entry | undefined): Entry {
    const entry = this.#committed(name, "amend");
    if (this.#records.amended(entry.record.dir).base === base?.record.dir) return entry;
    throw new SvcError("conflict", `Cannot amend snapshot ${name}: it lies on another one`);
  }

  #activeEntry(active: ActiveSnapshot, verb: string): Entry {
    const entry = this.#records.find(active.id);
    if (entry?.record.id !== active.id) throw missing(verb, active.id);
    return entry;
  }

  #active(entry: Entry): ActiveSnapshot {
    const { id, dir } = entry.record;
    const mounted = () => {
      const targets = this.#mounted.get(dir) ?? new Set<string>();
      this.#mounted.set(dir, targets);
      return targets;
    };
    return {
      id: id!,
      parent: this.#info(id!, entry).parent,
      source: () => this.#driver.source(this.#place(entry)),
      mount: async (target) => {
        if (!this.#records.entries.has(dir)) throw missing("mount", id!);
        const where = mountPoint(target);
        if (await isMounted(where)) {
          mounted().add(where);
          return;
        }
        if (this.driver === "overlay" && await this.#isMounted(dir)) {
          throw new SvcError("conflict", `Cannot mount snapshot ${id}: it is mounted elsewhere`);
        }
        const { volatile } = entry.record;
        await guarded(target, () => this.#driver.mount(this.#place(entry), where, { volatile }));
        mounted().add(where);
      },
      unmount: async (target) => {
        let where = target;
        try {
          where = Deno.realPathSync(target);
        } catch (error) {
          if (!(error instanceof Deno.errors.NotFound)) throw error;
        }
        await guarded(target, () => unmountFully(where));
        mounted().delete(where);
      },
    };
  }
}

const missing = (verb: string, name: string) =>
  new SvcError("not_found", `Cannot ${verb} snapshot ${name}: there is none of that name`);
