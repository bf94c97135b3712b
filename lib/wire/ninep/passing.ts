/**
 * What a 9P server has open, for another process of this machine that goes on with it: the client notices nothing.
 * Only of files of this machine as they are; the descriptors go over by number (lib/sys/pass_fds.ts).
 */
import { Buffer } from "node:buffer";
import { statDescriptor } from "../../sys/entry_stat.ts";
import { Giver, letTake } from "../../sys/pass_fds.ts";
import { HostFile, HostFolder } from "../files/host_file.ts";
import { HostNode } from "../files/host_node.ts";
import type { HostTree } from "../files/host_tree.ts";
import { type FileNode, Listing } from "../files/node.ts";
import { OneEntry } from "../files/one_entry.ts";
import { Fid, Fids, SharedNode } from "./fids.ts";
import type { ServedState } from "./server.ts";

type Exports = ReadonlyMap<string, FileNode>;

interface PassedTree {
  devices: readonly number[];
  /** `users`: fids. */
  locks: { key: string; fd: number; users: number[] }[];
}

interface PassedFid {
  number: number;
  /** Index of its node. */
  node: number;
  file?: number;
  folder?: number;
}

export interface PassedServed extends Pick<ServedState, "msize" | "own"> {
  /** base64 */
  rest: string;
  /** By the name of the export. */
  trees: Record<string, PassedTree>;
  /** Those without a descriptor are the export's root. */
  nodes: { tree: string; fd?: number; path?: string }[];
  fids: PassedFid[];
}

/** The node that knows the export's tree; undefined for files that are not of this machine, or are watched over. */
function baseOf(root: FileNode): HostNode | undefined {
  const base = root instanceof OneEntry ? root.beside : root;
  return base instanceof HostNode && !base.passed.tree.options.guards ? base : undefined;
}

/** Undefined: something of it cannot go over. The files stay open here. */
export async function passServed(
  exports: Exports,
  { fids, msize, own, ordered, rest }: ServedState,
): Promise<PassedServed | undefined> {
  const names = new Map<HostTree, string>();
  const roots = new Map<FileNode, string>();
  // The numbers that files were given would go over too.
  if (ordered) return undefined;
  for (const [name, root] of exports) {
    const base = baseOf(root);
    if (!base) return undefined;
    names.set(base.passed.tree, name);
    roots.set(root, name);
  }
  const nodes: PassedServed["nodes"] = [];
  const indices = new Map<FileNode, number>();
  const indexOf = (node: FileNode) => {
    const known = indices.get(node);
    if (known !== undefined) return known;
    const root = roots.get(node);
    if (root !== undefined) nodes.push({ tree: root });
    else if (node instanceof HostNode) {
      const { tree, fd, path } = node.passed;
      nodes.push({ tree: names.get(tree)!, fd, path });
    } else return undefined;
    indices.set(node, nodes.length - 1);
    return nodes.length - 1;
  };
  const passed: PassedFid[] = [];
  const numbers = new Map<object, number>();
  for (const [number, { shared, file, folder, xattr }] of fids.all) {
    const node = shared && indexOf(shared.node);
    const plain = (!file || file instanceof HostFile) &&
      (!folder || folder.folder instanceof HostFolder);
    // An attribute that is being read or written is asked for again by nobody: it is too rare to be passed.
    if (node === undefined || !plain || xattr) return undefined;
    if (file) numbers.set(file, number);
    passed.push({
      ...{ number, node },
      ...(file && { file: (file as HostFile).fd }),
      ...(folder && { folder: (folder.folder as HostFolder).fd }),
    });
  }
  const trees: PassedServed["trees"] = {};
  for (const [tree, name] of names) {
    const locks = (await tree.locks.pass()).map(({ key, fd, users }) => ({
      ...{ key, fd, users: users.flatMap((file) => numbers.get(file) ?? []) },
    }));
    trees[name] = { devices: tree.devices, locks };
  }
  letTake();
  return {
    ...{ msize, own, rest: Buffer.from(rest).toString("base64"), trees, nodes, fids: passed },
  };
}

/** Takes over what the process has open, all or nothing. Throws where a descriptor cannot be taken. */
export function adoptServed(
  exports: Exports,
  all: readonly PassedServed[],
  pid: number,
): ServedState[] {
  using giver = new Giver(pid);
  return all.map((one) => adopted(exports, one, giver));
}

function adopted(exports: Exports, passed: PassedServed, giver: Giver): ServedState {
  const bases = new Map([...exports].map(([name, root]) => [name, baseOf(root)!]));
  for (const [name, { devices }] of Object.entries(passed.trees)) {
    bases.get(name)!.passed.tree.devices = devices;
  }
  const nodes = passed.nodes.map(({ tree, fd, path = "" }) => {
    if (fd !== undefined) {
      const base = bases.get(tree)!.passed.tree;
      base.reserve();
      const own = giver.take(fd);
      return new SharedNode(new HostNode(base, own, statDescriptor(own), path));
    }
    const root = new SharedNode(exports.get(tree)!);
    // This share is never dropped: whoever gave the export closes its node.
    root.share();
    return root;
  });
  const fids = new Fids(Infinity);
  const used = new Set<SharedNode>();
  for (const { number, node: index, file, folder } of passed.fids) {
    const shared = nodes[index];
    const fid = fids.put(number, new Fid(used.has(shared) ? shared.share() : shared));
    used.add(shared);
    const node = shared.node as HostNode;
    if (file !== undefined) {
      const { tree } = node.passed;
      tree.reserve();
      fid.file = new HostFile(tree, giver.take(file), node.id);
    }
    if (folder !== undefined) {
      // The root of a single file lists nothing of the disk.
      node.passed.tree.reserve();
      fid.folder = new Listing(node.listed(giver.take(folder)).lost(), node.id);
    }
  }
  for (const [name, { locks }] of Object.entries(passed.trees)) {
    const { tree } = bases.get(name)!.passed;
    for (const { key, fd, users } of locks) {
      const files = users.flatMap((number) => fids.get(number).file ?? []);
      tree.reserve();
      tree.locks.adopt(key, giver.take(fd), files);
    }
  }
  const { msize, own, rest } = passed;
  return { fids, msize, own, ordered: false, rest: Uint8Array.from(Buffer.from(rest, "base64")) };
}
