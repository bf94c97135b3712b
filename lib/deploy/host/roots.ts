/** Containers' trees as snapshots, for engines whose images svc's own snapshotters unpack. */
import { join } from "node:path";
import type { ResolvedImage } from "../../oci/resolver.ts";
import { isMounted } from "../../sys/mountinfo.ts";
import type { DiffSource } from "../../snapshot/diff_tree.ts";
import type { ActiveSnapshot, Snapshotter } from "../../snapshot/snapshotter.ts";
import { pruneUnused, type Unused } from "../../snapshot/unused.ts";
import type { BackendParts } from "../module.ts";
import type { ContainerRoots } from "./engine.ts";

export interface SnapshotRootsOptions extends Pick<BackendParts, "snapshotter" | "unpack"> {
  /** Prefix of the key in a snapshot's id. */
  prefix: string;
  /** Folder of the instances: each tree is at `<key>/rootfs`. */
  instances: string;
}

export class SnapshotRoots implements ContainerRoots {
  #options: SnapshotRootsOptions;
  #opened: Promise<Snapshotter> | undefined;

  constructor(options: SnapshotRootsOptions) {
    this.#options = options;
  }

  /** Opened once; a failed opening is tried again. */
  #snapshotter(): Promise<Snapshotter> {
    return this.#opened ??= this.#options.snapshotter().catch((error) => {
      this.#opened = undefined;
      throw error;
    });
  }

  #id(key: string): string {
    return `${this.#options.prefix}-${key}`;
  }

  #path(key: string): string {
    return join(this.#options.instances, key, "rootfs");
  }

  async unpack(image: ResolvedImage, { signal }: { signal?: AbortSignal } = {}) {
    const snapshotter = await this.#snapshotter();
    const use = snapshotter.use();
    try {
      const name = await this.#options.unpack(snapshotter, image, { signal });
      return { name, [Symbol.dispose]: () => use[Symbol.dispose]() };
    } catch (error) {
      use[Symbol.dispose]();
      throw error;
    }
  }

  /** Removes the images that no container's tree lies on; only of a snapshotter that nobody else uses. */
  async prune(options: { dryRun?: boolean; signal?: AbortSignal } = {}): Promise<Unused> {
    return await pruneUnused(await this.#snapshotter(), options);
  }

  async mount(key: string, image?: string): Promise<string> {
    // From an earlier start of the container; a reboot has unmounted it.
    if (image === undefined && await isMounted(this.#path(key))) return this.#path(key);
    const active = image === undefined
      ? await this.#active(key)
      : await (await this.#snapshotter()).prepare(this.#id(key), image);
    await active.mount(this.#path(key));
    return this.#path(key);
  }

  async #active(key: string): Promise<ActiveSnapshot> {
    const id = this.#id(key);
    const active = await (await this.#snapshotter()).active(id);
    if (active) return active;
    throw new Error(`snapshot ${id} is not there`);
  }

  async source(key: string): Promise<DiffSource> {
    return (await this.#active(key)).source();
  }

  async remove(key: string): Promise<void> {
    const snapshotter = await this.#snapshotter();
    const active = await snapshotter.active(this.#id(key));
    await active?.unmount(this.#path(key));
    await snapshotter.remove(this.#id(key));
  }
}
