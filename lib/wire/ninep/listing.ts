/** A folder's entries in a 9P server's answer. */
import type { FolderEntry, NodeKind } from "../files/node.ts";
import { QID, type Reader, violation } from "./messages.ts";

const KINDS: Record<number, NodeKind> = { 4: "directory", 8: "file", 10: "symlink" };

/** The kind, as far as the qid tells. */
export function kindOfQid(type: number): NodeKind {
  return type & QID.DIR ? "directory" : type & QID.SYMLINK ? "symlink" : "file";
}

/** `next`: offset after the last entry, "." and ".." included; undefined at the end. */
export function listing(reply: Reader, asked: number): { entries: FolderEntry[]; next?: bigint } {
  const size = reply.u32();
  if (size > asked || size !== reply.left) throw violation("a listing has the wrong size");
  const entries: FolderEntry[] = [];
  let next: bigint | undefined;
  while (reply.left > 0) {
    const { path: id, ...qid } = reply.qid();
    next = reply.u64();
    // In a qid, sockets and the like are files.
    const type = reply.u8();
    const kind = KINDS[type] ?? kindOfQid(qid.type);
    const name = reply.text();
    if (name === "" || /[/\0]/.test(name)) throw violation("a listing has a name with a slash");
    if (name !== "." && name !== "..") entries.push({ name, kind, id, next });
  }
  return { entries, next };
}
