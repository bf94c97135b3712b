/**
 * The tar of a file or folder in the root of a workload: owners as numbers, links, holes, attributes, times with
 * nanoseconds. Sockets are left out, and so is what the kernel's file systems hold.
 */
import { compareRaw, decodeRaw } from "../../../base/raw_string.ts";
import { SvcError } from "../../../base/errors.ts";
import type { TarType } from "../../../oci/tar.ts";
import { type TarSegment, TarWriter } from "../../../oci/tar_write.ts";
import { layerXattrs, TAR_TYPES } from "../../../snapshot/metadata.ts";
import { readNames } from "../../../sys/directory.ts";
import { hasCode } from "../../../sys/errno.ts";
import { close, read, seek, seekTo } from "../../../sys/fd.ts";
import { type FileStat, S_IFLNK, S_IFMT } from "../../../sys/files.ts";
import { reopen } from "../../../sys/rooted_file.ts";
import { callHere, cbytes } from "../../../sys/system_call.ts";
import type { FileStat as PublicStat } from "../../caps.ts";
import {
  behind,
  DEEPEST,
  entryOf,
  find,
  isKernels,
  nameOf,
  type Place,
  refuseKernels,
} from "./place.ts";

const CHUNK = 256 * 1024;
const BLOCK = 512;
/** Most stretches of data of a sparse file; readers take no more. */
const MOST_SEGMENTS = 1 << 20;

export function linkTarget({ fd }: Pick<Place, "fd">): string {
  const target = new Uint8Array(new ArrayBuffer(4097));
  return decodeRaw(target.subarray(0, callHere("readlinkat", fd, cbytes(""), target, 4097)));
}

/** Undefined where nothing is at the path. */
export function statIn(root: number, path: string): PublicStat | undefined {
  using found = find(root, path);
  return found && publicStat(found, path);
}

function publicStat(place: Place, path: string): PublicStat {
  const { stat: { size, mode, mtime, mtimeNs } } = place;
  const isLink = (mode & S_IFMT) === S_IFLNK;
  return {
    name: nameOf(path) === "." ? "/" : nameOf(path),
    size,
    mode,
    modified: new Date(mtime * 1000 + Math.floor(mtimeNs / 1e6)).toISOString(),
    ...(isLink && !isKernels(place.fd) && { linkTarget: linkTarget(place) }),
  };
}

/** Throws `not_found`. The archive has to be read to its end, or left (`return`). */
export function pack(
  root: number,
  path: string,
): { stat: PublicStat; archive: Generator<Uint8Array<ArrayBuffer>, void, void> } {
  const attempted = `Cannot copy ${path}`;
  const found = find(root, path);
  if (!found) throw new SvcError("not_found", `${attempted}: no such file or folder`);
  try {
    refuseKernels(found.fd, attempted);
    return { stat: publicStat(found, path), archive: archive(found, nameOf(path)) };
  } catch (error) {
    found[Symbol.dispose]();
    throw error;
  }
}

function* archive(found: Place, name: string): Generator<Uint8Array<ArrayBuffer>, void, void> {
  using top = found;
  const packer = new Packer();
  yield* packer.entry(top, name, 0) as Generator<Uint8Array<ArrayBuffer>>;
  yield packer.end() as Uint8Array<ArrayBuffer>;
}

class Packer {
  #writer = new TarWriter();
  /** First path of each file with several names. */
  #links = new Map<string, string>();

  end(): Uint8Array {
    return this.#writer.end();
  }

  *entry(place: Place, path: string, depth: number): Generator<Uint8Array> {
    const { stat } = place;
    const type = TAR_TYPES[stat.mode & S_IFMT];
    if (!type) return;
    if (type !== "directory" && stat.nlink > 1) {
      const key = `${stat.devMajor}:${stat.devMinor}:${stat.ino}`;
      const first = this.#links.get(key);
      if (first !== undefined) {
        yield this.#header(place, path, "hardlink", { linkpath: first });
        return;
      }
      this.#links.set(key, path);
    }
    if (type === "file") return yield* this.#file(place, path);
    const linkpath = type === "symlink" ? linkTarget(place) : "";
    yield this.#header(place, path, type, { linkpath });
    if (type === "directory" && !isKernels(place.fd)) yield* this.#folder(place, path, depth + 1);
  }

  *#folder({ fd }: Place, path: string, depth: number): Generator<Uint8Array> {
    if (depth > DEEPEST) {
      throw new SvcError(
        "too_large",
        `Cannot copy ${path}: more than ${DEEPEST} folders are in each other`,
        { help: "copy a folder further down" },
      );
    }
    for (const name of readNames(behind(fd)).sort(compareRaw)) {
      let child: Place;
      try {
        child = entryOf(fd, name);
      } catch (error) {
        if (hasCode(error, "ENOENT")) continue; // removed meanwhile
        throw error;
      }
      using entry = child;
      yield* this.entry(entry, `${path}/${name}`, depth);
    }
  }

  #header(
    { fd, stat }: Place,
    path: string,
    type: TarType,
    { linkpath = "", segments }: { linkpath?: string; segments?: TarSegment[] } = {},
  ): Uint8Array {
    const device = type === "char" || type === "block";
    const attributes = type === "file" || type === "directory";
    return this.#writer.header({
      path: path === "." ? "./" : path,
      type,
      linkpath,
      size: type === "file" ? stat.size : 0,
      mode: stat.mode & 0o7777,
      uid: stat.uid,
      gid: stat.gid,
      mtime: stat.mtime,
      mtimeNs: stat.mtimeNs,
      devMajor: device ? stat.rdevMajor : 0,
      devMinor: device ? stat.rdevMinor : 0,
      xattrs: attributes ? layerXattrs(fd) : undefined,
    }, segments);
  }

  *#file(place: Place, path: string): Generator<Uint8Array> {
    const { stat } = place;
    if (stat.size === 0) return yield this.#header(place, path, "file");
    const fd = reopen(place, path);
    try {
      const segments = segmentsOf(fd, stat, path);
      yield this.#header(place, path, "file", { segments });
      for (const { offset, length } of segments ?? [{ offset: 0, length: stat.size }]) {
        if (segments) seek(fd, offset, path);
        for (let left = length; left > 0;) {
          const chunk = new Uint8Array(Math.min(left, CHUNK));
          const got = read(fd, chunk, path);
          if (got === 0) {
            throw new SvcError("conflict", `Cannot copy ${path}: it became shorter meanwhile`, {
              help: "copy it again, or pause the deployment meanwhile",
            });
          }
          left -= got;
          const after = this.#writer.data(chunk.subarray(0, got));
          yield chunk.subarray(0, got);
          if (after.length > 0) yield after;
        }
      }
    } finally {
      close(fd);
    }
  }
}

/** Where a sparse file has data, in whole blocks of an archive; undefined for a file without holes. */
function segmentsOf(fd: number, stat: FileStat, path: string): TarSegment[] | undefined {
  if (stat.blocks * BLOCK >= stat.size) return undefined;
  const segments: TarSegment[] = [];
  try {
    for (let at = 0; at < stat.size;) {
      const data = seekTo(fd, "data", at);
      if (data === undefined || data >= stat.size) break;
      const hole = Math.min(seekTo(fd, "hole", data) ?? stat.size, stat.size);
      const offset = Math.max(data - data % BLOCK, at);
      const end = Math.min(hole + (BLOCK - hole % BLOCK) % BLOCK, stat.size);
      const last = segments.at(-1);
      if (last && last.offset + last.length >= offset) last.length = end - last.offset;
      else segments.push({ offset, length: end - offset });
      at = end;
      if (segments.length > MOST_SEGMENTS) {
        throw new SvcError("too_large", `Cannot copy ${path}: it has too many holes`);
      }
    }
  } catch (error) {
    // A file system that cannot tell its holes.
    if (!hasCode(error, "EINVAL", "EOPNOTSUPP")) throw error;
    seek(fd, 0, path);
    return undefined;
  }
  return segments;
}
