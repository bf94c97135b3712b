/** How an entry of a known folder is made without waiting: it counts at once, until it turns out not to be there. */
import { checkName } from "../files/node.ts";
import type { Begun, Wanted } from "../ninep/begin.ts";
import type { RemoteNode } from "../ninep/remote_node.ts";
import type { KnownTree } from "./tree.ts";

/** The owner may make entries in a folder. */
const WRITES = 0o300;

/** A folder, and whether it is there. */
interface At {
  folder: RemoteNode;
  id: bigint;
  found: Promise<void>;
}

interface New {
  name: string;
  mode: number;
  kind: "file" | "directory";
}

/** `made`: throws where it could not be made, or its folder. */
export function beginEntry<B extends Begun>(
  tree: KnownTree,
  { folder, id, found }: At,
  { name, mode, kind }: New,
  begin: (folder: RemoteNode, wanted: Wanted) => B,
): { number: bigint; begun: B; made: Promise<void> } {
  checkName(name);
  const number = tree.begin(id, name, kind);
  const done = () => tree.begun(id, name, number);
  const begun = begin(folder, { name, mode, number, done });
  const made = Promise.all([found, begun.made]).then(() => {});
  made.catch((error) => {
    tree.failed(id, name, number, kind);
    // Whoever has a new file open is told by it.
    if (kind === "directory") tree.ahead.failed(id, error);
  });
  if (kind === "directory") {
    if ((mode & WRITES) === WRITES) tree.behind!.proved(number);
    // It is watched from then on; without that nothing is known of it.
    const gone = { about: "gone", tree: tree.number, folder: number } as const;
    tree.list(begun.node.fid).catch(() => tree.told(gone));
  }
  const changing = tree.changing([[id, name]], () => made);
  void tree.behind!.counted(changing).catch(() => {/* told above */});
  return { number, begun, made };
}
