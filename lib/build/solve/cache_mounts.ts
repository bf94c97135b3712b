/**
 * `RUN --mount=type=cache`: folders that outlive builds.
 *
 *     <id hash>/shared            the folder that is taken where nobody has it for himself
 *     <id hash>/private-<n>       others, for steps that run at the same time as a `private` one
 *     own-<hash>/…                the same of one caller, on a server whose policy tells callers apart
 *     <id hash>/<folder>.used     empty; its time is that of the last use
 *     trash/                      what is being removed
 */
import { createHash } from "node:crypto";
import { ensureDir, exists, removeTree, temporaryName } from "../../base/fs.ts";
import { KeyedMutex, Mutex } from "../../base/mutex.ts";
import { applyLayer, runTreeJob } from "../../snapshot/tree_jobs.ts";
import { chmod, lchown } from "../../sys/files.ts";
import { type CacheItem, type Shelf, SMALL_FILE } from "../cache/shelf.ts";
import { select } from "../context/tree.ts";
import { copyOffLoop } from "../context/worker_client.ts";
import type { RunMount } from "../plan/graph.ts";

export type CacheMount = Extract<RunMount, { type: "cache" }>;

/** Identifies a cache mount. */
export type MountName = Pick<CacheMount, "id" | "owner">;

export interface HeldCache extends Disposable {
  path: string;
}

interface Folder {
  /** Folders that a step has for itself (`sharing=private`). */
  busy: Set<string>;
  locked: Mutex;
}

/** The initial content of an empty cache: a mounted tree and a path in it. */
export interface CacheSeed {
  root: string;
  source: string;
}

const TRASH = "trash";

export class CacheMounts implements Shelf {
  readonly kind = "cacheMounts";
  #root: string;
  #folders = new Map<string, Folder>();
  /** Number of steps that use a folder, by its path. */
  #users = new Map<string, number>();
  /** Serialises making and removing a folder. */
  #locks = new KeyedMutex();
  /** Sizes in bytes of folders that no step has used since they were counted. */
  #sizes = new Map<string, number>();

  #maxUnpackedBytes: number | undefined;

  /** `root` is made if missing. `maxUnpackedBytes`: limit for a folder that is made from an archive. */
  constructor(root: string, limits: { maxUnpackedBytes?: number } = {}) {
    this.#root = root;
    this.#maxUnpackedBytes = limits.maxUnpackedBytes;
  }

  /** Removes folders that a crash left half made or half removed; only while no step runs. */
  async recover(): Promise<void> {
    await removeTree(`${this.#root}/${TRASH}`);
    for (const { id, name } of await this.#list()) {
      if (name.includes(".tmp-")) await removeTree(`${this.#root}/${id}/${name}`);
    }
  }

  /**
   * The folder for one step. `shared`: all steps use it at once; `locked`: one step at a time; `private`: no
   * other step has the folder at the same time, and a later step uses it again.
   */
  async hold(mount: CacheMount, seed: CacheSeed | undefined): Promise<HeldCache> {
    const id = hashOf(mount);
    const folder = this.#folders.get(id) ?? { busy: new Set<string>(), locked: new Mutex() };
    this.#folders.set(id, folder);
    const used = (name: string) => this.#users.has(`${this.#root}/${id}/${name}`);
    // A private folder is shared with no other step.
    const free = mount.sharing === "private"
      ? (name: string) => !used(name)
      : (name: string) => !folder.busy.has(name);
    if (mount.sharing !== "locked") {
      let name = "shared";
      for (let number = 0; !free(name); number++) name = `private-${number}`;
      if (mount.sharing === "shared") return await this.#use(id, name, mount, seed, () => {});
      folder.busy.add(name);
      return await this.#use(id, name, mount, seed, () => void folder.busy.delete(name));
    }
    const lock = await folder.locked.acquire();
    return await this.#use(id, "shared", mount, seed, () => lock[Symbol.dispose]());
  }

  async items(signal?: AbortSignal): Promise<CacheItem[]> {
    const items: CacheItem[] = [];
    for (const { id, name, kind } of await this.#list()) {
      if (kind !== "folder" || name.includes(".tmp-")) continue;
      const path = `${this.#root}/${id}/${name}`;
      const held = this.#users.has(path);
      try {
        const { mtime } = await Deno.stat(`${path}.used`).catch(() => Deno.stat(path));
        const size = await this.#size(path, signal) + SMALL_FILE;
        items.push({ id: `${id}/${name}`, size, used: mtime?.getTime() ?? 0, held });
      } catch (error) {
        // A step is writing in the folder, or it was removed: a later call counts it.
        if (signal?.aborted) throw error;
      }
    }
    return items;
  }

  async remove(item: string): Promise<boolean> {
    const path = `${this.#root}/${item}`;
    const away = `${this.#root}/${TRASH}/${crypto.randomUUID()}`;
    await ensureDir(`${this.#root}/${TRASH}`, 0o700);
    const gone = await this.#locks.run(path, async () => {
      if (this.#users.has(path)) return false;
      await Deno.rename(path, away);
      await removeTree(`${path}.used`);
      this.#sizes.delete(path);
      return true;
    });
    if (gone) await removeTree(away);
    return gone;
  }

  /** An unused folder, which is not removed until the caller disposes of the result. */
  async borrow(mount: MountName, name: string): Promise<HeldCache | undefined> {
    const path = `${this.#root}/${hashOf(mount)}/${name}`;
    if (this.#users.has(path)) return undefined;
    const leave = this.#enter(path);
    if (await exists(path)) return { path, [Symbol.dispose]: leave };
    leave();
    return undefined;
  }

  /** Makes a folder from an archive. False where the folder exists already, and then keeps it. */
  async restore(
    mount: Pick<CacheMount, "id" | "owner" | "mode" | "uid" | "gid"> & { folder: string },
    archive: () => Promise<ReadableStream<Uint8Array>>,
    signal?: AbortSignal,
  ): Promise<boolean> {
    const path = `${this.#root}/${hashOf(mount)}/${mount.folder}`;
    const leave = this.#enter(path);
    try {
      return await this.#locks.run(path, async () => {
        if (await exists(path)) return false;
        await this.#create(path, mount, async (root) => {
          const target = { root, lower: [], overlay: false };
          await applyLayer(target, await archive(), { maxBytes: this.#maxUnpackedBytes, signal });
        });
        return true;
      });
    } finally {
      leave();
    }
  }

  async #list(): Promise<{ id: string; name: string; kind: "folder" | "file" }[]> {
    const found: { id: string; name: string; kind: "folder" | "file" }[] = [];
    if (!await exists(this.#root)) return found;
    for await (const { name: id } of Deno.readDir(this.#root)) {
      if (id === TRASH) continue;
      for await (const { name, isDirectory } of Deno.readDir(`${this.#root}/${id}`)) {
        found.push({ id, name, kind: isDirectory ? "folder" : "file" });
      }
    }
    return found;
  }

  async #use(
    id: string,
    name: string,
    mount: CacheMount,
    seed: CacheSeed | undefined,
    release: () => void,
  ): Promise<HeldCache> {
    const path = `${this.#root}/${id}/${name}`;
    const forget = this.#enter(path);
    const leave = () => {
      forget();
      release();
    };
    try {
      await this.#locks.run(path, () => this.#make(path, mount, seed));
      return { path, [Symbol.dispose]: leave };
    } catch (error) {
      leave();
      throw error;
    }
  }

  /** Registers a user before the folder is looked at: a folder with users is not removed. */
  #enter(path: string): () => void {
    this.#users.set(path, (this.#users.get(path) ?? 0) + 1);
    return () => {
      const left = this.#users.get(path)! - 1;
      if (left > 0) this.#users.set(path, left);
      else this.#users.delete(path);
      this.#sizes.delete(path);
    };
  }

  async #make(path: string, mount: CacheMount, seed: CacheSeed | undefined): Promise<void> {
    if (!await exists(path)) {
      await this.#create(path, mount, async (root) => {
        if (!seed) return;
        const tree = { root: seed.root, ownersKept: true };
        await copyOffLoop(tree, select(tree, seed.source, false), {
          root,
          destination: "/",
        });
      });
    }
    await noteUse(`${path}.used`);
  }

  /** Filled under a temporary name and then renamed, so that the folder is complete or missing. */
  async #create(
    path: string,
    mount: Pick<CacheMount, "mode" | "uid" | "gid">,
    fill: (root: string) => Promise<void>,
  ): Promise<void> {
    await ensureDir(path.slice(0, path.lastIndexOf("/")), 0o700);
    const temporary = temporaryName(path);
    await Deno.mkdir(temporary);
    try {
      await fill(temporary);
      lchown(temporary, mount.uid, mount.gid);
      chmod(temporary, mount.mode);
      await Deno.rename(temporary, path);
    } catch (error) {
      await removeTree(temporary);
      throw error;
    }
  }

  /** Bytes on disk, counted in a Worker. */
  async #size(path: string, signal?: AbortSignal): Promise<number> {
    const known = this.#sizes.get(path);
    if (known !== undefined) return known;
    const attempted = `Cannot count ${path}`;
    const size = await runTreeJob<"size">({ kind: "size", root: path }, attempted, signal);
    if (!this.#users.has(path)) this.#sizes.set(path, size);
    return size;
  }
}

const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");

/** An owner's mount has a prefix, so that its name never equals that of a shared mount. */
const hashOf = ({ id, owner }: MountName) =>
  owner === undefined ? sha256(id) : `own-${sha256(JSON.stringify([owner, id]))}`;

/** Writes the empty file whose time is that of the last use. */
async function noteUse(path: string): Promise<void> {
  try {
    await Deno.writeFile(path, new Uint8Array());
  } catch (error) {
    if (!(error instanceof Deno.errors.IsADirectory)) throw error;
    await removeTree(path);
    await Deno.writeFile(path, new Uint8Array());
  }
}
