/** What a 9P server's answers say. */
import type { FolderEntry } from "../files/node.ts";
import { QID, type Qid, type Reader, violation } from "./messages.ts";
import type { NodeKind, NodeStat } from "../files/stat.ts";

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

export function attributes(reply: Reader): NodeStat & { qid: Qid } {
  reply.u64();
  const [qid, mode, uid, gid] = [reply.qid(), reply.u32(), reply.u32(), reply.u32()];
  const [nlink, , size, , blocks] = Array.from({ length: 5 }, () => Number(reply.u64()));
  const time = () => ({
    s: Number(BigInt.asIntN(64, reply.u64())),
    ns: Number(reply.u64()),
  });
  const [atime, mtime, ctime] = [time(), time(), time()];
  return { qid, mode, uid, gid, nlink, size, blocks, atime, mtime, ctime };
}

/** The bytes of a read that asked for so many at most. */
export function data(reply: Reader, asked: number): Uint8Array {
  const size = reply.u32();
  if (size > asked || size !== reply.left) throw violation("an answer has the wrong size");
  return reply.raw(size);
}
