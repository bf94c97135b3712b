/** Directory listings by bytes: names that are not UTF-8 survive (lib/base/raw_string.ts). */
import { decodeRaw } from "../base/raw_string.ts";
import { close, open } from "./fd.ts";
import { lstat, O, rmdir, S_IFDIR, S_IFMT, tryLstat, unlink } from "./files.ts";
import { check, errno, libc } from "./libc.ts";

const buffer = new Uint8Array(65536);
const view = new DataView(buffer.buffer);

/**
 * A name's position in the buffer of a listing, and its kind; `unknown` where the file system does not tell.
 */
export interface RawEntry {
  bytes: Uint8Array;
  start: number;
  end: number;
  kind: "file" | "folder" | "other" | "unknown";
}

/** Types of struct linux_dirent64; all others are "other". */
const KINDS: Record<number, RawEntry["kind"]> = { 0: "unknown", 4: "folder", 8: "file" };

/**
 * Calls `show` with the entries of `path`, without "." and "..", in no particular order. Every call gets the
 * same object with new values. `show` must not list another folder; it returns false to stop.
 */
export function eachEntry(path: string, show: (entry: RawEntry) => false | void): void {
  const fd = open(path, O.RDONLY | O.DIRECTORY);
  const entry: RawEntry = { bytes: buffer, start: 0, end: 0, kind: "unknown" };
  try {
    while (true) {
      const length = check(
        libc().sys_getdents64(fd, buffer, BigInt(buffer.length)),
        errno[0],
        "getdents64",
        path,
      );
      if (length === 0) return;
      // struct linux_dirent64: ino 8, offset 8, record length 2, type 1, name with its NUL.
      for (let at = 0; at < length;) {
        const record = view.getUint16(at + 16, true);
        const start = at + 19;
        const end = buffer.indexOf(0, start);
        const dots = buffer[start] === 46 &&
          (end === start + 1 || end === start + 2 && buffer[start + 1] === 46);
        if (!dots) {
          entry.start = start;
          entry.end = end;
          entry.kind = KINDS[buffer[at + 18]] ?? "other";
          if (show(entry) === false) return;
        }
        at += record;
      }
    }
  } finally {
    close(fd);
  }
}

/** Names in `path` without "." and "..", in no particular order. */
export function readNames(path: string): string[] {
  const names: string[] = [];
  eachEntry(path, ({ bytes, start, end }) => {
    names.push(decodeRaw(bytes.subarray(start, end)));
  });
  return names;
}

/** Removes a file or a whole tree, without following links; a missing one is ignored. Blocks the thread. */
export function removeTreeSync(path: string): void {
  const stat = tryLstat(path);
  if (!stat) return;
  if ((stat.mode & S_IFMT) !== S_IFDIR) return unlink(path);
  for (const name of readNames(path)) {
    const child = `${path}/${name}`;
    if ((lstat(child).mode & S_IFMT) === S_IFDIR) removeTreeSync(child);
    else unlink(child);
  }
  rmdir(path);
}
