/** One file of this machine as an export: a read-only folder with that file alone. */
import { basename, dirname } from "../../base/path.ts";
import { hostFolder } from "./host_node.ts";
import type { HostOptions } from "./host_tree.ts";
import { type FileNode } from "./node.ts";
import { OneEntry } from "./one_entry.ts";
import { ERRNO, FileError } from "./stat.ts";

/**
 * The file at `path` as the only entry, `shown`, of a folder. Throws the system's error where there is none. The
 * caller closes the node. Linux only.
 */
export function hostSingleFile(path: string, shown: string, options: HostOptions = {}): FileNode {
  const real = Deno.realPathSync(path);
  const folder = hostFolder(dirname(real), options);
  // Looked up each time: an editor puts a new file in the place of the old one.
  return new OneEntry(folder, folder.id, shown, async () => {
    const node = await folder.walk(basename(real));
    if (node.kind === "file") return node;
    node.close();
    throw new FileError(ERRNO.ENOENT, "it is no file any more");
  });
}
