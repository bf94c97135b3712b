/** What two builders of one Dockerfile have to agree on: the image's configuration and its file tree. */
import { Buffer } from "node:buffer";
import { createHash, type Hash } from "node:crypto";
import { decompress } from "../../../lib/oci/compression.ts";
import type { TarHeader } from "../../../lib/oci/tar.ts";
import { TarParser } from "../../../lib/oci/tar_parser.ts";
import type { ImageConfig } from "../../../lib/oci/types.ts";

/** A path of the tree; an absent member is 0, or there is none. */
export interface Listed {
  type: string;
  mode: string;
  uid?: number;
  gid?: number;
  size?: number;
  sha256?: string;
  link?: string;
  device?: string;
  xattrs?: Record<string, string>;
  /** The first path of the same inode. */
  same?: string;
  /** Only where the language fixes it. */
  mtime?: number;
}

export interface Listing {
  config: Record<string, unknown>;
  layers: number;
  /** What differs from the base image; null where a path of the base is gone. */
  tree: Record<string, Listed | null>;
}

interface Node {
  header: TarHeader;
  sha256?: string;
  size: number;
}

/** Times before this are from files, those after it from the clock of whoever built. */
const CLOCK = 1_700_000_000;

const child = (path: string, parent: string) => path.startsWith(`${parent}/`);

/** The merged tree of layers, by path without a leading slash. */
export async function mergeLayers(
  layers: ReadableStream<Uint8Array>[],
): Promise<Map<string, Node>> {
  const tree = new Map<string, Node>();
  const remove = (path: string, itself: boolean) => {
    for (const known of [...tree.keys()]) {
      if (child(known, path) || itself && known === path) tree.delete(known);
    }
  };
  for (const layer of layers) {
    const added = new Map<string, Node>();
    let current: { node: Node; hash: Hash } | undefined;
    const zeros = new Uint8Array(65536);
    const parser = new TarParser({
      entry: (header) => {
        const path = header.path.replace(/^(\.?\/)+/, "").replace(/\/+$/, "");
        current = undefined;
        if (path === "" || path === ".") return;
        const name = path.slice(path.lastIndexOf("/") + 1);
        const parent = path.slice(0, Math.max(0, path.length - name.length - 1));
        if (name === ".wh..wh..opq") return remove(parent, false);
        if (name.startsWith(".wh.")) {
          const hidden = name.slice(4);
          return remove(parent === "" ? hidden : `${parent}/${hidden}`, true);
        }
        if (header.type === "hardlink") {
          const target = header.linkpath.replace(/^(\.?\/)+/, "");
          added.set(path, (added.get(target) ?? tree.get(target))!);
          return;
        }
        const node: Node = { header, size: header.size };
        added.set(path, node);
        if (header.type === "file") current = { node, hash: createHash("sha256") };
      },
      data: (chunk) => void current?.hash.update(chunk),
      hole: (length) => {
        for (let left = length; left > 0; left -= zeros.length) {
          current?.hash.update(zeros.subarray(0, Math.min(left, zeros.length)));
        }
      },
      end: () => {
        if (current) current.node.sha256 = current.hash.digest("hex");
        current = undefined;
      },
    });
    for await (const chunk of decompress(layer)) parser.push(chunk);
    parser.finish();
    for (const [path, node] of added) {
      const old = tree.get(path);
      if (old?.header.type === "directory" && node.header.type !== "directory") remove(path, false);
      tree.set(path, node);
    }
  }
  return tree;
}

function listed({ header, sha256, size }: Node, same: string | undefined): Listed {
  const xattrs = [...header.xattrs].map((
    [name, value],
  ) => [name, Buffer.from(value).toString("hex")]).sort();
  const device = header.type === "char" || header.type === "block";
  return {
    type: header.type,
    mode: header.mode.toString(8).padStart(4, "0"),
    ...(header.uid !== 0 && { uid: header.uid }),
    ...(header.gid !== 0 && { gid: header.gid }),
    ...(sha256 !== undefined && { size, sha256 }),
    ...(header.type === "symlink" && { link: header.linkpath }),
    ...(device && { device: `${header.devMajor}:${header.devMinor}` }),
    ...(xattrs.length > 0 && { xattrs: Object.fromEntries(xattrs) }),
    ...(same !== undefined && { same }),
    ...(header.mtime < CLOCK && { mtime: header.mtime }),
  };
}

function listTree(tree: Map<string, Node>): Map<string, Listed> {
  const first = new Map<Node, string>();
  const result = new Map<string, Listed>();
  for (const path of [...tree.keys()].sort()) {
    const node = tree.get(path)!;
    result.set(path, listed(node, first.get(node)));
    if (!first.has(node)) first.set(node, path);
  }
  return result;
}

/** A time that no clock gave. */
function dated(created: string | undefined) {
  const seconds = Date.parse(created ?? "") / 1000;
  return seconds > 0 && seconds < CLOCK && { created: new Date(seconds * 1000).toISOString() };
}

function plainConfig(image: ImageConfig): Record<string, unknown> {
  const { created, history = [], author, os, architecture, variant } = image;
  // The image specification forbids builders to set it; BuildKit does wherever there is a CMD.
  const { ArgsEscaped: _, ...config } = { ArgsEscaped: true, ...image.config };
  return {
    ...dated(created),
    ...(author !== undefined && { author }),
    platform: [os, architecture, variant].filter(Boolean).join("/"),
    config: Object.fromEntries(
      Object.entries(config).filter(([, value]) => value !== null && value !== "").sort((
        [a],
        [b],
      ) => a < b ? -1 : 1),
    ),
    history: history.map(({ created, ...entry }) => ({ ...dated(created), ...entry })),
  };
}

/** `base`: the layers of the image that the tests build on. */
export async function listImage(
  image: ImageConfig,
  layers: ReadableStream<Uint8Array>[],
  base: ReadableStream<Uint8Array>[],
): Promise<Listing> {
  const count = layers.length;
  const before = listTree(await mergeLayers(base));
  const after = listTree(await mergeLayers(layers));
  // An image that does not stand on the base is listed whole, but for the base's own bytes.
  const tree: Listing["tree"] = {};
  const onBase = after.has("bin/busybox");
  for (const [path, entry] of after) {
    const old = before.get(path);
    if (old && JSON.stringify({ ...old, mtime: 0 }) === JSON.stringify({ ...entry, mtime: 0 })) {
      continue;
    }
    tree[path] = entry;
  }
  if (onBase) {
    for (const path of before.keys()) if (!after.has(path)) tree[path] = null;
  }
  return { config: plainConfig(image), layers: count, tree };
}
