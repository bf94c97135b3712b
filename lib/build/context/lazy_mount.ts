/** A remote context as a mount: the listing is local, contents come when a process reads them. */
import { ensureDir } from "../../base/fs.ts";
import type { Logger } from "../../base/log.ts";
import { hasFuse } from "../../sys/fuse.ts";
import type { FileNode } from "../../wire/files/node.ts";
import { ListedNode } from "../../wire/files/listed_node.ts";
import { mountFuse } from "../../wire/fuse/mount.ts";
import { mountKernel } from "./kernel_mount.ts";
import type { RemoteEntry, RemoteTree } from "./remote.ts";
import type { LazyTree } from "./tree.ts";

/** How a context that is read on demand is mounted. */
export type LazyWay = "kernel" | "fuse";

/** What SVC_LAZY_9P sets. */
export interface LazyReading {
  /** Ways to mount, tried in order. Where none works, the contents are fetched before the step runs. */
  ways: readonly LazyWay[];
  /** Largest 9P message of the kernel's client, in bytes. */
  msize?: number;
}

export interface LazyOptions {
  reading: LazyReading;
  log: Logger;
}

/** Ways that this machine refused and that were already logged. */
const told = new Set<LazyWay>();
const NAMES: Record<LazyWay, string> = { kernel: "the kernel's 9P client", fuse: "FUSE" };

/**
 * The listing as a tree of files whose contents are read from the caller. A folder comes before its contents.
 */
function listedRoot(
  entries: Iterable<RemoteEntry>,
  remote: RemoteTree,
  signal: AbortSignal,
): ListedNode {
  const top = { kind: "directory", mode: 0o755, size: 0, mtime: 0, mtimeNs: 0 } as const;
  const root = new ListedNode(top, { id: 1n });
  const folders = new Map([["", root]]);
  let id = root.id;
  for (const entry of entries) {
    const { path, type: kind, link, ...facts } = entry;
    const slash = path.lastIndexOf("/");
    const listed = { ...facts, kind, ...kind === "symlink" && { link } };
    const open = kind === "file" ? () => remote.open!(entry, signal) : undefined;
    const node = new ListedNode(listed, { id: ++id, open });
    if (kind === "directory") folders.set(path, node);
    folders.get(slash < 0 ? "" : path.slice(0, slash))?.children.set(path.slice(slash + 1), node);
  }
  return root;
}

export class LazyMount implements LazyTree, AsyncDisposable {
  #mounted: Promise<{ path: string; end: AsyncDisposable } | undefined> | undefined;

  constructor(
    readonly path: string,
    readonly entries: ReadonlyMap<string, RemoteEntry>,
    readonly remote: RemoteTree,
    readonly signal: AbortSignal,
    readonly options: LazyOptions,
  ) {}

  stamp(path: string): string {
    const entry = this.entries.get(path);
    return JSON.stringify([this.remote.identity, entry?.stamp, entry?.size, entry?.mode]);
  }

  async mount(): Promise<string | undefined> {
    return (await (this.#mounted ??= this.#mount()))?.path;
  }

  async #mount() {
    const { path, options: { reading, log } } = this;
    const { ways } = reading;
    if (ways.length === 0) return undefined;
    await ensureDir(path, 0o700);
    const root = listedRoot(this.entries.values(), this.remote, this.signal);
    for (const [index, way] of ways.entries()) {
      const end = way === "kernel"
        ? await mountKernel(path, root, reading.msize)
        : mountedFuse(path, root);
      if (end) return { path, end };
      if (told.has(way)) continue;
      told.add(way);
      const next = ways.at(index + 1);
      log.info(`${NAMES[way]} cannot mount a build context here`, {
        instead: next ? NAMES[next] : "contents are fetched before a step runs",
      });
    }
    return undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const mounted = await this.#mounted;
    if (!mounted) return;
    await mounted.end[Symbol.asyncDispose]();
    await Deno.remove(mounted.path);
  }
}

/** Undefined where FUSE is missing or not allowed. */
function mountedFuse(path: string, root: FileNode): AsyncDisposable | undefined {
  if (!hasFuse()) return undefined;
  try {
    return mountFuse(path, root);
  } catch {
    return undefined;
  }
}
