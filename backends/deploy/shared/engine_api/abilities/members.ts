/** Members of an archive on its way into a folder of a container. */
import { SvcError } from "../../../../../lib/base/errors.ts";
import { archiveError, type TarHeader } from "../../../../../lib/oci/tar.ts";
import { readTar, type TarEntry } from "../../../../../lib/oci/tar_read.ts";

/** What a second name of a file gets from the first. */
type First = Pick<TarHeader, "mode" | "uid" | "gid" | "mtime" | "mtimeNs">;

const ZEROS = new Uint8Array(64 * 1024);
/** Files of one archive, whose names are kept until its end: some 100 MB of memory. */
const MOST_NAMES = 500_000;

/**
 * The members, with paths below the folder and without the folder itself. Throws `archive_invalid`,
 * `argument_invalid` and `denied`.
 */
export async function* safeMembers(
  tar: ReadableStream<Uint8Array>,
  path: string,
): AsyncGenerator<{ member: TarHeader; parts: TarEntry["parts"] }, void, void> {
  const links = new Set<string>();
  const files = new Map<string, First>();
  for await (const { header, parts } of readTar(tar)) {
    const member = safeMember(header, path, { links, files });
    if (!member) continue;
    if (member.type === "symlink") links.add(member.path);
    else links.delete(member.path);
    if (member.type !== "directory") {
      const { mode, uid, gid, mtime, mtimeNs } = member;
      files.set(member.path, { mode, uid, gid, mtime, mtimeNs });
    }
    if (links.size + files.size > MOST_NAMES) {
      throw new SvcError("too_large", `Cannot copy to ${path}: the archive has too many files`);
    }
    yield { member, parts };
  }
}

/** The content of a member, holes as zeros. */
export async function* contentOf(parts: TarEntry["parts"]): AsyncGenerator<Uint8Array, void, void> {
  for await (const part of parts()) {
    if (typeof part !== "number") {
      yield part;
      continue;
    }
    for (let left = part; left > 0; left -= Math.min(left, ZEROS.length)) {
      yield ZEROS.subarray(0, left);
    }
  }
}

/** With paths below the folder; undefined for the folder itself, which stays as it is. */
function safeMember(
  header: TarHeader,
  folder: string,
  { links, files }: { links: ReadonlySet<string>; files: ReadonlyMap<string, First> },
): TarHeader | undefined {
  const attempted = `Cannot copy ${JSON.stringify(header.path)} to ${folder}`;
  const below = (path: string) => {
    const parts = path.split("/").filter((part) => part !== "" && part !== ".");
    if (parts.includes("..")) {
      throw archiveError(`${JSON.stringify(header.path)} leads out of the folder`);
    }
    const above = parts.slice(0, -1).map((_, at) => parts.slice(0, at + 1).join("/"));
    if (above.some((one) => links.has(one))) {
      throw new SvcError("argument_invalid", `${attempted}: it is behind a link of the archive`);
    }
    return parts.join("/");
  };
  const path = below(header.path);
  if (path === "") return undefined;
  if (header.type === "char" || header.type === "block") {
    throw new SvcError("denied", `${attempted}: it is a device`, {
      help: "leave it out of the archive; devices are given to a workload by its spec",
    });
  }
  if (header.type !== "hardlink") return { ...header, path };
  const linkpath = below(header.linkpath);
  const file = files.get(linkpath);
  // The engine gives the file the owner, the mode and the time that its other name comes with.
  if (file) return { ...header, ...file, path, linkpath };
  throw archiveError(
    `hard link ${JSON.stringify(header.path)} to ${header.linkpath} names no file of the archive`,
  );
}
