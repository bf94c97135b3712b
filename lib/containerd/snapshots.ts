/**
 * Snapshots whose trees are containerd's: its snapshotter makes, commits and removes them, and a label keeps
 * them from its garbage collection. As with the other drivers, svc's own records hold names, parents and
 * times of use. A record's folder has links to containerd's tree.
 */
import { dirname } from "node:path";
import { SvcError } from "../base/errors.ts";
import { ensureDir, exists, readJson, removeTree } from "../base/fs.ts";
import type { Logger } from "../base/log.ts";
import type { SnapshotDriver, TreePlace } from "../snapshot/driver.ts";
import { likeFolder } from "../snapshot/finish_tree.ts";
import { nativeDriver } from "../snapshot/native.ts";
import { overlayDriver, probeOverlay } from "../snapshot/overlay.ts";
import type { SnapshotRecord } from "../snapshot/records.ts";
import type { Snapshotter } from "../snapshot/snapshotter.ts";
import { runTreeJob } from "../snapshot/tree_jobs.ts";
import { TreeSnapshotter } from "../snapshot/tree_snapshotter.ts";
import { syncFileSystem } from "../sys/fd.ts";
import { type MountMessage, type SnapshotMessage, Snapshots } from "./api.ts";
import type { ContainerdClient } from "./client.ts";
import { GarbageCollection } from "./garbage.ts";
import { GC_ROOT, ownedBy, ownerLabels } from "./labels.ts";

/** containerd's snapshotters whose trees are folders of this host, and the driver that reads each. */
const KINDS: Record<string, "overlay" | "native"> = { overlayfs: "overlay", native: "native" };

export interface ContainerdSnapshotsOptions {
  client: ContainerdClient;
  /** containerd's snapshotter: overlayfs or native. */
  snapshotter: string;
  /** Folder of the records, made if missing. */
  root: string;
  /** Tells this server's snapshots from those of other servers on the same containerd: `[a-z0-9]`. */
  owner: string;
  log: Logger;
}

interface TreePaths {
  tree: string;
  work?: string;
}

/** The folders of a newly prepared snapshot. */
function pathsOf([mount]: MountMessage[]): TreePaths {
  if (mount?.type === "bind") return { tree: mount.source };
  const option = (key: string) =>
    mount?.options.find((text) => text.startsWith(`${key}=`))?.slice(key.length + 1);
  const tree = option("upperdir");
  if (tree === undefined) {
    throw new SvcError(
      "unsupported",
      `Cannot use containerd's snapshot: it is a mount of type ${mount?.type}, not a folder`,
      { help: "set SVC_CONTAINERD_SNAPSHOTTER to overlayfs or native" },
    );
  }
  return { tree, work: option("workdir") };
}

class ContainerdDriver implements SnapshotDriver {
  readonly name: "overlay" | "native";
  readonly changesOnly: boolean;
  readonly #options: ContainerdSnapshotsOptions;
  /** Does what containerd does not: mounts trees and reads them. */
  readonly #local: SnapshotDriver;
  readonly #garbage: GarbageCollection;
  /** A folder on the file system of containerd's trees, for syncs. */
  #store = "/";
  /** Link → what it points to. */
  readonly #real = new Map<string, string>();
  /** Snapshots still to be removed: a child of theirs was still being removed, or containerd was away. */
  readonly #waiting = new Set<string>();

  constructor(
    options: ContainerdSnapshotsOptions,
    local: SnapshotDriver,
    garbage: GarbageCollection,
  ) {
    this.#options = options;
    this.#local = local;
    this.#garbage = garbage;
    this.name = local.name;
    this.changesOnly = local.changesOnly;
  }

  async create(place: TreePlace): Promise<void> {
    const [parent] = place.lower;
    const { mounts } = await this.#options.client.call(Snapshots.prepare, {
      snapshotter: this.#options.snapshotter,
      key: this.#key(dirOf(place.folder)),
      parent: parent === undefined ? "" : this.#committed(dirOf(dirname(parent))),
      labels: this.#labels(),
    }, "Cannot prepare a snapshot");
    const { tree, work } = pathsOf(mounts);
    await Deno.symlink(tree, `${place.folder}/fs`);
    if (work !== undefined) await Deno.symlink(work, `${place.folder}/work`);
    if (parent === undefined) return await Deno.chmod(tree, 0o755);
    const below = this.#follow(parent);
    // containerd copies the owner of the parent's root, but not always its mode.
    likeFolder(below, tree);
    if (!this.changesOnly) {
      await runTreeJob({ kind: "times", from: below, to: tree }, "Cannot copy snapshot");
    }
  }

  mount(place: TreePlace, target: string, options: { volatile?: boolean }): Promise<void> {
    return this.#local.mount(place, target, options);
  }

  view(place: TreePlace, target: string): Promise<void> {
    return this.#local.view(place, target);
  }

  async freeze(place: TreePlace): Promise<void> {
    await this.#local.freeze(place);
    const dir = dirOf(place.folder);
    await this.#options.client.call(Snapshots.commit, {
      snapshotter: this.#options.snapshotter,
      name: this.#committed(dir),
      key: this.#key(dir),
      labels: this.#labels(),
    }, "Cannot commit a snapshot");
  }

  source(place: TreePlace) {
    const { root, over, lower, overlay } = this.#local.source(place);
    const follow = (path: string) => this.#follow(path);
    return { root: follow(root), over: over?.map(follow), lower: lower.map(follow), overlay };
  }

  async discard(dir: string): Promise<void> {
    for (const path of this.#real.keys()) {
      if (dirOf(dirname(path)) === dir) this.#real.delete(path);
    }
    this.#waiting.add(dir);
    try {
      await this.#removeWaiting();
    } catch (error) {
      if (!(error instanceof SvcError)) throw error;
      // The snapshot is already hidden; a later removal, or the next start, removes it from containerd.
      this.#options.log.warn("a snapshot is not removed from containerd yet", {
        reason: error.message,
      });
      return;
    }
    this.#garbage.collect();
  }

  async #removeWaiting(): Promise<void> {
    // Removing a child makes its parent removable.
    for (let removed = true; removed;) {
      removed = false;
      for (const waiting of [...this.#waiting]) {
        if (!await this.#remove(waiting)) continue;
        this.#waiting.delete(waiting);
        removed = true;
      }
    }
  }

  async sync(): Promise<void> {
    await syncFileSystem(this.#store);
  }

  /**
   * Drops the trees of records that have no snapshot in containerd; to be called before the records are read.
   */
  async reconcile(root: string): Promise<void> {
    const found = new Map((await this.#list()).map((info) => [info.name, info]));
    for (const dir of await foldersIn(`${root}/s`)) {
      const record = await readRecord(`${root}/s/${dir}`);
      const name = record?.id === undefined ? this.#committed(dir) : this.#key(dir);
      // containerd has no such snapshot, or the server stopped right after the commit, before it wrote the
      // record.
      if (!found.has(name)) await removeTree(`${root}/s/${dir}/fs`);
    }
  }

  /** Removes containerd's snapshots that have no record. */
  async removeStrays(root: string): Promise<void> {
    const known = new Set(await foldersIn(`${root}/s`));
    const dirs = new Set((await this.#list()).map(({ name }) => this.#dirOf(name)));
    for (const dir of dirs) if (!known.has(dir)) await this.discard(dir);
  }

  /** Throws unless this process sees the folders that containerd makes. */
  async probe(): Promise<void> {
    const { client, snapshotter } = this.#options;
    const key = this.#key("probe");
    await this.#remove("probe");
    const { mounts } = await client.call(
      Snapshots.prepare,
      { snapshotter, key, labels: this.#labels() },
      `Cannot use containerd's snapshotter ${snapshotter}`,
    );
    const { tree } = pathsOf(mounts);
    const visible = await exists(tree);
    await this.#remove("probe");
    if (visible) {
      this.#store = dirname(dirname(tree));
      return;
    }
    throw new SvcError(
      "prerequisite_missing",
      `Cannot use containerd's snapshots: ${tree} is not there for this process`,
      { help: "run the server on containerd's host, in the same mount namespace and as root" },
    );
  }

  async #list(): Promise<SnapshotMessage[]> {
    const { client, snapshotter, owner } = this.#options;
    const found: SnapshotMessage[] = [];
    const input = { snapshotter, filters: [ownedBy(owner)] };
    for await (const { info } of client.stream(Snapshots.list, input, "Cannot list snapshots")) {
      found.push(...info);
    }
    return found;
  }

  /** False where containerd refuses because the snapshot has a child. */
  async #remove(dir: string): Promise<boolean> {
    const { client, snapshotter } = this.#options;
    for (const key of [this.#committed(dir), this.#key(dir)]) {
      try {
        await client.call(Snapshots.remove, { snapshotter, key }, "Cannot remove a snapshot");
      } catch (error) {
        if (!(error instanceof SvcError)) throw error;
        if (error.code === "conflict") return false;
        if (error.code !== "not_found") throw error;
      }
    }
    return true;
  }

  #labels(): Record<string, string> {
    return { ...ownerLabels(this.#options.owner), [GC_ROOT]: new Date().toISOString() };
  }

  #committed(dir: string): string {
    return `svc-${this.#options.owner}-${dir}`;
  }

  #key(dir: string): string {
    return `${this.#committed(dir)}-active`;
  }

  #dirOf(name: string): string {
    return name.slice(this.#committed("").length).replace(/-active$/, "");
  }

  #follow(link: string): string {
    let real = this.#real.get(link);
    if (real === undefined) {
      real = Deno.readLinkSync(link);
      this.#real.set(link, real);
    }
    return real;
  }
}

const dirOf = (folder: string) => folder.slice(folder.lastIndexOf("/") + 1);

async function readRecord(folder: string): Promise<Partial<SnapshotRecord> | undefined> {
  try {
    return await readJson<SnapshotRecord>(`${folder}/meta.json`);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

async function foldersIn(path: string): Promise<string[]> {
  if (!await exists(path)) return [];
  return (await Array.fromAsync(Deno.readDir(path))).map(({ name }) => name);
}

/**
 * Opens the snapshots of one server in containerd. Throws `prerequisite_missing` where containerd or its
 * files cannot be reached, `unsupported` for a snapshotter whose trees are not folders.
 */
export async function openContainerdSnapshots(
  options: ContainerdSnapshotsOptions,
): Promise<Snapshotter & AsyncDisposable> {
  const { snapshotter, log } = options;
  const kind = KINDS[snapshotter];
  if (!kind) {
    throw new SvcError(
      "unsupported",
      `Cannot build with containerd's snapshotter ${snapshotter}: its trees are not folders`,
      { help: `set SVC_CONTAINERD_SNAPSHOTTER to ${Object.keys(KINDS).join(" or ")}` },
    );
  }
  const root = `${options.root}/${snapshotter}`;
  await ensureDir(root, 0o711);
  const garbage = new GarbageCollection(options.client, log);
  const overlay = kind === "overlay" ? await probeOverlay(root) : undefined;
  const local = kind === "native" ? nativeDriver() : overlayDriver({
    volatile: overlay?.reason === undefined && overlay!.volatile,
  });
  const driver = new ContainerdDriver(options, local, garbage);
  await driver.probe();
  await driver.reconcile(root);
  const opened = await TreeSnapshotter.open(root, driver, log);
  await driver.removeStrays(root);
  return Object.assign(opened, { [Symbol.asyncDispose]: () => garbage.settled() });
}
