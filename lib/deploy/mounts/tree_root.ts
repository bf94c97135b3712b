/**
 * The root of a mount: a folder whose only entry is what the caller exports. A workload gets that entry, not the
 * root: an engine whose mounts are not the server's has the folder below in the mount's place, where the entry is a
 * link to itself, and refuses, where it would else give the workload an empty folder.
 */
import type { FileNode } from "../../wire/files/node.ts";
import { OneEntry } from "../../wire/files/one_entry.ts";
import type { Later } from "../../wire/files/stat.ts";

/** The name of the entry. */
export const TREE = "tree";

/** No file of the caller's has it, for a number of a file is never near 2^64. */
const OWN_ID = 0xffff_ffff_ffff_fff0n;

/** `tree` is what the caller exports, and `another` gives one more node of it. Closing the root closes `tree`. */
export const treeRoot = (tree: FileNode, another: () => Later<FileNode>): FileNode =>
  new OneEntry(tree, OWN_ID, TREE, another);
