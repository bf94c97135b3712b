/**
 * Messages between the two ends of a mount with `,async`, beside those of 9P2000.L and in its form. Each answer ends
 * with the version of the file: its epoch, size and time of change. The epoch changes when somebody else than this
 * mount has changed the file. What names an epoch is refused (ESTALE) in every other one.
 *
 * | message | fields | answer |
 * |---|---|---|
 * | LOOK | fid[4] epoch[8] proofs | version |
 * | READ | fid[4] offset[8] count[4] | count[4] data[count] version |
 * | WRITE | fid[4] epoch[8] offset[8] proofs count[4] data[count] | version |
 * | SYNC | fid[4] epoch[8] dataOnly[4] proofs | version |
 * | CUT | fid[4] epoch[8] size[8] | version |
 * | LOCK | as of Tlock | status[1] version |
 *
 * Epoch 0 in a LOOK is any epoch. Proofs: count[4], then offset[8] length[4] hash[16] each: what the sender believes
 * to be in the file. Where something else is there, nothing is done: ESTALE.
 */
import { createHash } from "../../base/hash.ts";
import type { FileTime } from "../files/stat.ts";
import { type Reader, violation, type Writer } from "../ninep/messages.ts";

/** How the blocks of a mount with `,async` are kept coherent with the caller's files (docs/mounts.md). */
export interface BlockOptions {
  /** What a write builds on is proved part by part, not block by block. */
  subhash?: boolean;
  /** What was written is proved when it is synced, instead of what it builds on with each write. */
  defer?: boolean;
  /** Only the parts that are read are fetched, not whole blocks. */
  subfill?: boolean;
  /** With `subfill`: bytes that are fetched ahead, at most. */
  readAhead?: number;
}

/** Types of requests; the answer's is one higher. */
export const BLOCK = { LOOK: 200, READ: 202, WRITE: 204, SYNC: 206, CUT: 208, LOCK: 210 } as const;

export interface Version {
  epoch: bigint;
  size: number;
  mtime: FileTime;
}
/** Bytes of a version in a message. */
export const VERSION_SIZE = 8 + 8 + 8 + 4;

export interface Proof {
  offset: number;
  length: number;
  hash: Uint8Array;
}

const HASH = 16;
const PROOF = 8 + 4 + HASH;
/** Proofs of one message. */
export const MAX_PROOFS = 8192;

/** SHA-256, cut: against accidents and against two contents that somebody made to look alike. */
export const hashOf = (bytes: Uint8Array): Uint8Array =>
  new Uint8Array(createHash("sha256").update(bytes).digest()).subarray(0, HASH);

export function putVersion(writer: Writer, { epoch, size, mtime }: Version): Writer {
  return writer.u64(epoch).u64(size).u64(mtime.s).u32(mtime.ns);
}

export function readVersion(reader: Reader): Version {
  const [epoch, size, s] = [
    reader.u64(),
    readSize(reader),
    Number(BigInt.asIntN(64, reader.u64())),
  ];
  return { epoch, size, mtime: { s, ns: reader.u32() } };
}

/** Throws `upstream_failed` for a size or an offset that no file has. */
export function readSize(reader: Reader): number {
  const size = reader.u64();
  if (size > BigInt(Number.MAX_SAFE_INTEGER)) throw violation(`an offset of ${size}`);
  return Number(size);
}

export function putProofs(writer: Writer, proofs: readonly Proof[]): Writer {
  writer.u32(proofs.length);
  for (const { offset, length, hash } of proofs) writer.u64(offset).u32(length).raw(hash);
  return writer;
}

export function readProofs(reader: Reader): Proof[] {
  const count = reader.u32();
  if (count > MAX_PROOFS || count * PROOF > reader.left) throw violation(`${count} proofs`);
  return Array.from({ length: count }, () => ({
    offset: readSize(reader),
    length: reader.u32(),
    hash: reader.copy(HASH),
  }));
}
