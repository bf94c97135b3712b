/**
 * The folder of running steps: mounted roots and temporary files. What a crash left there is unmounted
 * and removed at the next start.
 *
 *     mnt/<id>    an active snapshot or a view, mounted; or an empty folder for the next one
 *     tmp/<id>    files of one step or export
 */
import { ensureDir, removeTree } from "../../base/fs.ts";
import type { ActiveSnapshot, Snapshotter } from "../../snapshot/snapshotter.ts";
import { unmount } from "../../sys/mount.ts";
import { mountsUnder } from "../../sys/mountinfo.ts";
import { SNAPSHOT_PREFIX } from "./records.ts";

/** Mount points that are kept for the next mounts. */
const KEPT_POINTS = 32;

/** Removes a mount point; never what is mounted there. */
function removePoint(path: string): void {
  try {
    Deno.removeSync(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

/** A writable root, mounted. */
export interface MountedRoot {
  id: string;
  root: string;
  /** Unmounts and freezes; the name of the committed snapshot. */
  commit(signal?: AbortSignal): Promise<string>;
  /** Unmounts and throws it away, unless committed. */
  [Symbol.asyncDispose](): Promise<void>;
}

export interface UnpackLimits {
  /** Bytes that one layer from elsewhere may have unpacked. */
  maxUnpackedBytes?: number;
}

export class Workspace {
  #root: string;
  #snapshotter: Snapshotter;
  #maxUnpackedBytes: number | undefined;
  /** Mount points on which nothing is mounted now. */
  #points: string[] = [];

  private constructor(root: string, snapshotter: Snapshotter, limits: UnpackLimits) {
    this.#root = root;
    this.#snapshotter = snapshotter;
    this.#maxUnpackedBytes = limits.maxUnpackedBytes;
  }

  /** `root` is an absolute path; leftovers in it are cleared. */
  static async open(
    root: string,
    snapshotter: Snapshotter,
    limits: UnpackLimits = {},
  ): Promise<Workspace> {
    await ensureDir(root);
    for (const { target } of await mountsUnder(await Deno.realPath(root))) {
      unmount(target, { detach: true });
    }
    for (const name of ["tmp", "contexts"]) await removeTree(`${root}/${name}`);
    for (const name of ["mnt", "tmp", "contexts"]) await ensureDir(`${root}/${name}`, 0o700);
    for await (const { name } of Deno.readDir(`${root}/mnt`)) {
      removePoint(`${root}/mnt/${name}`);
    }
    return new Workspace(root, snapshotter, limits);
  }

  /** A path that is not there yet. */
  path(kind: "tmp" | "contexts" | "mnt"): string {
    return `${this.#root}/${kind}/${crypto.randomUUID()}`;
  }

  /** Removes what is kept for later steps, when no step runs any more. */
  close(): void {
    for (const point of this.#points.splice(0)) removePoint(point);
  }

  /** Making and removing a folder for each mount can take longer than the mount. */
  #point(): string {
    return this.#points.pop() ?? this.path("mnt");
  }

  #unmounted(point: string): void {
    if (this.#points.length < KEPT_POINTS) this.#points.push(point);
    else removePoint(point);
  }

  /** A folder for temporary files; disposing removes it. */
  async temporary(): Promise<{ path: string } & AsyncDisposable> {
    const path = this.path("tmp");
    await Deno.mkdir(path, { mode: 0o700 });
    return { path, [Symbol.asyncDispose]: () => removeTree(path) };
  }

  /** Read-only view of a committed snapshot; none: an empty folder. */
  async view(snapshot: string | undefined): Promise<{ root: string } & AsyncDisposable> {
    if (snapshot === undefined) {
      const empty = await this.temporary();
      return { root: empty.path, [Symbol.asyncDispose]: () => empty[Symbol.asyncDispose]() };
    }
    const root = this.#point();
    let view: AsyncDisposable;
    try {
      view = await this.#snapshotter.view(snapshot, root);
    } catch (error) {
      this.#unmounted(root);
      throw error;
    }
    return {
      root,
      [Symbol.asyncDispose]: async () => {
        await view[Symbol.asyncDispose]();
        this.#unmounted(root);
      },
    };
  }

  /** A layer from elsewhere on top of `parent`: the committed snapshot, and what the layer was. */
  async unpack(
    parent: string | undefined,
    layer: ReadableStream<Uint8Array>,
    signal: AbortSignal,
  ): Promise<{ snapshot: string; diffID: string }> {
    const id = SNAPSHOT_PREFIX + crypto.randomUUID();
    const active = await this.#snapshotter.prepare(id, parent, { volatile: true });
    try {
      const { diffID } = await this.#snapshotter.apply(active, layer, {
        maxBytes: this.#maxUnpackedBytes,
        signal,
      });
      const snapshot = SNAPSHOT_PREFIX + crypto.randomUUID();
      await this.#snapshotter.commit(active, snapshot, { lazy: true, signal });
      return { snapshot, diffID };
    } catch (error) {
      await this.#snapshotter.remove(id);
      throw error;
    }
  }

  /** A writable root on top of `parent`, mounted; `amend`: one that begins with that one's changes. */
  async writable(parent: string | undefined, amend?: string): Promise<MountedRoot> {
    const id = SNAPSHOT_PREFIX + crypto.randomUUID();
    const options = { volatile: true, amend };
    const active: ActiveSnapshot = await this.#snapshotter.prepare(id, parent, options);
    const root = this.#point();
    let open = true;
    let mounted = true;
    const close = async () => {
      // Once: another step may have the mount point by now.
      if (!mounted) return;
      mounted = false;
      await active.unmount(root);
      this.#unmounted(root);
    };
    const drop = async () => {
      if (!open) return;
      open = false;
      await close();
      await this.#snapshotter.remove(id);
    };
    try {
      await active.mount(root);
    } catch (error) {
      await drop();
      throw error;
    }
    return {
      id,
      root,
      commit: async (signal) => {
        await close();
        const name = SNAPSHOT_PREFIX + crypto.randomUUID();
        await this.#snapshotter.commit(active, name, { lazy: true, signal });
        open = false;
        return name;
      },
      [Symbol.asyncDispose]: drop,
    };
  }
}
