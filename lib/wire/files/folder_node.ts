/** A confined folder as nodes, for 9P. Apart from the folder: most builds list and send files without 9P. */
import type { ConfinedFolder } from "./folder.ts";
import { hasSystemCalls } from "./host_files.ts";
import { hostFolder } from "./host_node.ts";
import type { FileNode } from "./node.ts";
import { PathNode } from "./path_node.ts";

/** The folder and everything below it; the caller closes the node. */
export function folderNode(folder: ConfinedFolder): FileNode {
  if (hasSystemCalls()) return hostFolder(folder.root, { visible: folder.visible });
  return new PathNode(folder, []);
}
