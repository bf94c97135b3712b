/** `RUN --mount=type=cache`: folders that outlive builds, below `<root>/cache-mounts/<id hash>/`. */
import { createHash } from "node:crypto";
import { ensureDir, exists, removeTree, temporaryName } from "../../base/fs.ts";
import { Mutex } from "../../base/mutex.ts";
import { chmod, lchown } from "../../sys/files.ts";
import { select } from "../context/tree.ts";
import { copyOffLoop } from "../context/worker_client.ts";
import type { RunMount } from "../plan/graph.ts";

export type CacheMount = Extract<RunMount, { type: "cache" }>;

export interface HeldCache extends Disposable {
  path: string;
}

interface Folder {
  /** Steps that use it under `private`. */
  busy: Set<string>;
  locked: Mutex;
}

/** What an empty cache begins with: a mounted tree and the path in it. */
export interface CacheSeed {
  root: string;
  source: string;
}

export class CacheMounts {
  #root: string;
  #folders = new Map<string, Folder>();

  /** `root` is made if missing. */
  constructor(root: string) {
    this.#root = root;
  }

  /**
   * The folder for one step. `shared`: the same for all at once; `locked`: one step at a time; `private`:
   * another folder for each step that runs at the same time, used again later.
   */
  async hold(mount: CacheMount, seed: CacheSeed | undefined): Promise<HeldCache> {
    const id = createHash("sha256").update(mount.id).digest("hex");
    const folder = this.#folders.get(id) ?? { busy: new Set<string>(), locked: new Mutex() };
    this.#folders.set(id, folder);
    if (mount.sharing === "private") {
      let number = 0;
      while (folder.busy.has(`private-${number}`)) number++;
      const name = `private-${number}`;
      folder.busy.add(name);
      try {
        const path = await this.#make(`${this.#root}/${id}/${name}`, mount, seed);
        return { path, [Symbol.dispose]: () => void folder.busy.delete(name) };
      } catch (error) {
        folder.busy.delete(name);
        throw error;
      }
    }
    const path = `${this.#root}/${id}/shared`;
    if (mount.sharing === "shared") {
      return { path: await this.#make(path, mount, seed), [Symbol.dispose]: () => {} };
    }
    const lock = await folder.locked.acquire();
    try {
      await this.#make(path, mount, seed);
    } catch (error) {
      lock[Symbol.dispose]();
      throw error;
    }
    return { path, [Symbol.dispose]: () => lock[Symbol.dispose]() };
  }

  async #make(path: string, mount: CacheMount, seed: CacheSeed | undefined): Promise<string> {
    if (await exists(path)) return path;
    await ensureDir(path.slice(0, path.lastIndexOf("/")), 0o700);
    const temporary = temporaryName(path);
    await Deno.mkdir(temporary);
    try {
      if (seed) {
        const tree = { root: seed.root, ownersKept: true };
        await copyOffLoop(tree, select(tree, seed.source, false), {
          root: temporary,
          destination: "/",
          several: false,
        });
      }
      lchown(temporary, mount.uid, mount.gid);
      chmod(temporary, mount.mode);
      await Deno.rename(temporary, path);
    } catch (error) {
      await removeTree(temporary);
      // Two steps that share it may both have been the first.
      if (!await exists(path)) throw error;
    }
    return path;
  }
}
