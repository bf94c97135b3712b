/** An archive of files of an instance. */
import { posix } from "node:path";
import { SvcError } from "../../../lib/base/errors.ts";
import { compareRaw } from "../../../lib/base/raw_string.ts";
import type { Attributes, Entry, Sftp } from "../../../lib/incus/sftp.ts";
import type { TarType } from "../../../lib/oci/tar.ts";
import { TarWriter } from "../../../lib/oci/tar_write.ts";

const FORMAT = 0o170000;
export const FOLDER = 0o040000;
export const LINK = 0o120000;

/** Of devices the protocol tells no numbers, and sockets are of no use elsewhere: both are left out. */
const TYPES: Readonly<Record<number, TarType>> = {
  0o100000: "file",
  [LINK]: "symlink",
  [FOLDER]: "directory",
  0o010000: "fifo",
};

/** Folders in each other, at most. */
const DEEPEST = 256;

export const formatOf = ({ mode = 0 }: Attributes): number => mode & FORMAT;

interface Place {
  /** In the instance. */
  path: string;
  /** In the archive. */
  name: string;
  attributes: Attributes;
}

/** `path` is there, with these attributes. Its own name is the archive's top. */
export async function* pack(
  sftp: Sftp,
  path: string,
  attributes: Attributes,
): AsyncGenerator<Uint8Array, void, void> {
  const writer = new TarWriter();
  const name = posix.basename(posix.resolve("/", path)) || ".";
  yield* entry(sftp, writer, { path, name, attributes }, 0);
  yield writer.end();
}

async function* entry(
  sftp: Sftp,
  writer: TarWriter,
  { path, name, attributes }: Place,
  depth: number,
): AsyncGenerator<Uint8Array, void, void> {
  const type = TYPES[formatOf(attributes)];
  if (!type) return;
  const { size = 0, mode = 0, uid, gid, mtime } = attributes;
  yield writer.header({
    ...{ type, uid, gid, mtime },
    path: name === "." ? "./" : name,
    mode: mode & 0o7777,
    size: type === "file" ? size : 0,
    linkpath: type === "symlink" ? await sftp.readlink(path) : "",
  });
  if (type === "file") yield* content(sftp, writer, path, size);
  if (type === "directory") yield* folder(sftp, writer, { path, name, attributes }, depth + 1);
}

async function* folder(
  sftp: Sftp,
  writer: TarWriter,
  { path, name }: Place,
  depth: number,
): AsyncGenerator<Uint8Array, void, void> {
  if (depth > DEEPEST) {
    throw new SvcError(
      "too_large",
      `Cannot copy ${path}: more than ${DEEPEST} folders are in each other`,
      { help: "copy a folder further down" },
    );
  }
  const all: Entry[] = [];
  for await (const one of sftp.readdir(path)) all.push(one);
  for (const one of all.sort((a, b) => compareRaw(a.name, b.name))) {
    const place = { path: `${path}/${one.name}`, name: `${name}/${one.name}` };
    yield* entry(sftp, writer, { ...place, attributes: one.attributes }, depth);
  }
}

/** As many bytes as the header says: the file may change meanwhile. */
async function* content(
  sftp: Sftp,
  writer: TarWriter,
  path: string,
  size: number,
): AsyncGenerator<Uint8Array, void, void> {
  let left = size;
  if (left === 0) return;
  for await (const bytes of sftp.read(path)) {
    const part = bytes.subarray(0, left);
    left -= part.length;
    const after = writer.data(part);
    yield part;
    if (after.length > 0) yield after;
    if (left === 0) return;
  }
  throw new SvcError("conflict", `Cannot copy ${path}: it became shorter meanwhile`, {
    help: "copy it again, or pause the deployment meanwhile",
  });
}
