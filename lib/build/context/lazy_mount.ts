/** A remote context as a mount of its own: its listing is here, its contents come as they are read. */
import { SvcError } from "../../base/errors.ts";
import { ensureDir } from "../../base/fs.ts";
import { type FuseNode, type FuseTree, hasFuse, mountFuse } from "../../sys/fuse.ts";
import type { RemoteEntry, RemoteTree } from "./remote.ts";
import type { LazyTree } from "./tree.ts";

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
      children: new Map(),
    };
    folders.set("", root);
    this.#nodes.push({ node: root });
    for (const entry of entries) {
      const { path, type, mode, size, mtime, link } = entry;
      const slash = path.lastIndexOf("/");
      const folder = folders.get(slash < 0 ? "" : path.slice(0, slash));
      const node: FuseNode = { kind: type, mode, size, mtime, ...link !== undefined && { link } };
      if (type === "symlink") node.size = new TextEncoder().encode(link).length;
      if (type === "directory") {
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
  ) {}

  stamp(path: string): string {
    const entry = this.entries.get(path);
    return JSON.stringify([this.remote.identity, entry?.stamp, entry?.size, entry?.mode]);
  }

  async mount(): Promise<string | undefined> {
    return (await (this.#mounted ??= this.#mount()))?.path;
  }

  async #mount() {
    if (!hasFuse()) return undefined;
    const { path } = this;
    await ensureDir(path, 0o700);
    const tree = new ListedTree(this.entries.values(), this.remote, this.signal);
    try {
      return { path, end: mountFuse(path, tree) };
    } catch {
      // Not allowed here: what it would have shown is fetched instead.
      return undefined;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const mounted = await this.#mounted;
    if (!mounted) return;
    await mounted.end[Symbol.asyncDispose]();
    await Deno.remove(mounted.path);
  }
}
