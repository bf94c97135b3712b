/** A remote context as a mount of its own: its listing is here, its contents come as they are read. */
import { SvcError } from "../../base/errors.ts";
import { ensureDir } from "../../base/fs.ts";
import type { Logger } from "../../base/log.ts";
import { type FuseNode, type FuseTree, hasFuse, mountFuse } from "../../sys/fuse.ts";
import { mountKernel } from "./kernel_mount.ts";
import type { RemoteEntry, RemoteTree } from "./remote.ts";
import type { LazyTree } from "./tree.ts";

/** How a context that is read on demand is mounted. */
export type LazyWay = "kernel" | "fuse";

/** SVC_LAZY_9P. */
export interface LazyReading {
  /** Tried one after the other; where none works, what a step mounts is fetched before it runs. */
  ways: readonly LazyWay[];
  /** Bytes of a 9P message of the kernel's, at most. */
  msize?: number;
}

export interface LazyOptions {
  reading: LazyReading;
  log: Logger;
}

/** What this machine refuses is told once. */
const told = new Set<LazyWay>();
const NAMES: Record<LazyWay, string> = { kernel: "the kernel's 9P client", fuse: "FUSE" };

class ListedTree implements FuseTree {
  #nodes: { node: FuseNode; entry?: RemoteEntry }[] = [];

  /** Folders come before what is in them. */
  constructor(
    entries: Iterable<RemoteEntry>,
    readonly remote: RemoteTree,
    readonly signal: AbortSignal,
  ) {
    const folders = new Map<string, FuseNode>();
    const root: FuseNode = {
      kind: "directory",
      mode: 0o755,
      size: 0,
      mtime: 0,
      mtimeNs: 0,
      children: new Map(),
    };
    folders.set("", root);
    this.#nodes.push({ node: root });
    for (const entry of entries) {
      const { path, type: kind, mode, size, mtime, mtimeNs, link } = entry;
      const slash = path.lastIndexOf("/");
      const folder = folders.get(slash < 0 ? "" : path.slice(0, slash));
      const node: FuseNode = {
        kind,
        mode,
        size,
        mtime,
        mtimeNs,
        ...link !== undefined && { link },
      };
      if (kind === "symlink") node.size = new TextEncoder().encode(link).length;
      if (kind === "directory") {
        node.children = new Map();
        folders.set(path, node);
      }
      folder?.children?.set(path.slice(slash + 1), this.#nodes.push({ node, entry }));
    }
  }

  node(number: number): FuseNode | undefined {
    return this.#nodes[number - 1]?.node;
  }

  async open(number: number) {
    const { entry } = this.#nodes[number - 1];
    if (!entry) throw new SvcError("internal", "Cannot open a folder as a file");
    return await this.remote.open!(entry, this.signal);
  }
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
    const tree = new ListedTree(this.entries.values(), this.remote, this.signal);
    for (const [index, way] of ways.entries()) {
      const end = way === "kernel"
        ? await mountKernel(path, tree, reading.msize)
        : mountedFuse(path, tree);
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

/** Undefined where it is not there or not allowed. */
function mountedFuse(path: string, tree: FuseTree): AsyncDisposable | undefined {
  if (!hasFuse()) return undefined;
  try {
    return mountFuse(path, tree);
  } catch {
    return undefined;
  }
}
