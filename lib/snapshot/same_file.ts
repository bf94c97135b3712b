/** Whether two files of two trees are the same, metadata and content. */
import { close, open, read } from "../sys/fd.ts";
import {
  type FileStat,
  O,
  readlink,
  S_IFBLK,
  S_IFCHR,
  S_IFLNK,
  S_IFMT,
  S_IFREG,
} from "../sys/files.ts";
import { READING } from "../sys/rooted_file.ts";
import { layerXattrs } from "./metadata.ts";

/**
 * Compares type, mode, owner, time, attributes, and content byte for byte: equal times prove nothing where a
 * build sets them. Of folders the contents are not compared.
 */
export function sameFile(a: string, sa: FileStat, b: string, sb: FileStat): boolean {
  if (sa.mode !== sb.mode || sa.uid !== sb.uid || sa.gid !== sb.gid) return false;
  if (sa.mtime !== sb.mtime || sa.mtimeNs !== sb.mtimeNs) return false;
  const kind = sa.mode & S_IFMT;
  if (kind === S_IFREG && sa.size !== sb.size) return false;
  if (kind === S_IFCHR || kind === S_IFBLK) {
    if (sa.rdevMajor !== sb.rdevMajor || sa.rdevMinor !== sb.rdevMinor) return false;
  }
  if (kind === S_IFLNK && readlink(a) !== readlink(b)) return false;
  const xa = layerXattrs(a), xb = layerXattrs(b);
  if (xa.size !== xb.size) return false;
  for (const [name, value] of xa) if (!sameBytes(value, xb.get(name))) return false;
  return kind !== S_IFREG || sa.size === 0 || sameContent(a, b, sa.size);
}

function sameBytes(a: Uint8Array, b: Uint8Array | undefined): boolean {
  return b !== undefined && a.length === b.length && a.every((byte, i) => byte === b[i]);
}

const SIZE = 256 * 1024;
let buffers: [Buffer8, Buffer8] | undefined;
interface Buffer8 {
  bytes: Uint8Array<ArrayBuffer>;
  words: BigUint64Array;
}

function buffer(): Buffer8 {
  const bytes = new Uint8Array(SIZE);
  return { bytes, words: new BigUint64Array(bytes.buffer) };
}

function sameContent(a: string, b: string, size: number): boolean {
  const [left, right] = buffers ??= [buffer(), buffer()];
  const fa = open(a, READING | O.NOFOLLOW);
  try {
    const fb = open(b, READING | O.NOFOLLOW);
    try {
      for (let at = 0; at < size;) {
        const got = fill(fa, left.bytes, a);
        if (got !== fill(fb, right.bytes, b) || got === 0) return false;
        // Both files' bytes past the end are zero then, and compare as equal.
        left.bytes.fill(0, got, Math.min(SIZE, got + 8));
        right.bytes.fill(0, got, Math.min(SIZE, got + 8));
        const words = Math.ceil(got / 8);
        for (let i = 0; i < words; i++) if (left.words[i] !== right.words[i]) return false;
        at += got;
      }
      return true;
    } finally {
      close(fb);
    }
  } finally {
    close(fa);
  }
}

/** Reads until the buffer is full or the file ends. */
function fill(fd: number, bytes: Uint8Array, path: string): number {
  let filled = 0;
  while (filled < bytes.length) {
    const got = read(fd, bytes.subarray(filled), path);
    if (got === 0) break;
    filled += got;
  }
  return filled;
}
