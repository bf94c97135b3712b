/** Unpacks an archive into a folder of an instance. A file is there once it is whole. */
import { posix } from "node:path";
import { SvcError } from "../../../lib/base/errors.ts";
import { type Attributes, type Sftp, SftpError } from "../../../lib/incus/sftp.ts";
import type { TarHeader } from "../../../lib/oci/tar.ts";
import type { TarEntry } from "../../../lib/oci/tar_read.ts";
import { contentOf, safeMembers } from "../shared/engine_api/abilities/members.ts";
import { FOLDER, formatOf } from "./pack.ts";

/** The protocol's times are 32 bits long, without a sign. */
const LAST_SECOND = 2 ** 32 - 1;

/** Throws `conflict` where something of another kind is there, and what the archive throws. */
export async function unpack(
  sftp: Sftp,
  folder: string,
  tar: ReadableStream<Uint8Array>,
  /** Throws where a member may not go to this path. */
  requirePlace: (path: string) => void,
): Promise<void> {
  const unpacker = new Unpacker(sftp);
  for await (const { member, parts } of safeMembers(tar, folder)) {
    const path = posix.join(folder, member.path);
    requirePlace(path);
    try {
      await unpacker.put(path, member, {
        linked: posix.join(folder, member.linkpath),
        parts,
      });
    } catch (error) {
      // A folder above it is none.
      throw error instanceof SftpError && error.code === "not_found"
        ? new SvcError("conflict", error.message, { cause: error })
        : error;
    }
  }
  await unpacker.finish();
}

class Unpacker {
  readonly #sftp: Sftp;
  /** Folders that are there. */
  readonly #known = new Set<string>();
  /** Times of folders, which change with what is put into them. */
  readonly #times = new Map<string, number>();

  constructor(sftp: Sftp) {
    this.#sftp = sftp;
  }

  async put(
    path: string,
    header: TarHeader,
    { linked, parts }: { linked: string; parts: TarEntry["parts"] },
  ): Promise<void> {
    await this.#folder(posix.dirname(path));
    const there = await this.#sftp.lstat(path);
    const isFolder = there && formatOf(there) === FOLDER;
    if (header.type === "directory") {
      if (there && !isFolder) throw inTheWay(path, "what is there is no folder");
      if (!there) await this.#sftp.mkdir(path);
      await this.#dress(path, header);
      this.#known.add(path);
      this.#times.set(path, header.mtime);
      return;
    }
    if (isFolder) throw inTheWay(path, "a folder is there");
    const fresh = posix.join(posix.dirname(path), `.svc-${crypto.randomUUID()}`);
    try {
      await this.#make(fresh, header, { linked, parts });
      await this.#sftp.rename(fresh, path);
    } finally {
      // Of two names of one file both stay.
      await this.#sftp.remove(fresh).catch(() => {/* it has its name, or was never made */});
    }
  }

  async #make(
    path: string,
    header: TarHeader,
    { linked, parts }: { linked: string; parts: TarEntry["parts"] },
  ): Promise<void> {
    switch (header.type) {
      case "file":
        await this.#sftp.create(path, contentOf(parts));
        return await this.#dress(path, header);
      case "hardlink":
        return await this.#sftp.link(linked, path);
      case "symlink":
        return await this.#sftp.symlink(header.linkpath, path);
      default:
        throw new SvcError(
          "unsupported",
          `Cannot copy ${JSON.stringify(header.path)}: Incus makes no ${header.type}`,
          { help: "leave it out of the archive, or make it by svc exec" },
        );
    }
  }

  /** An owner takes permissions away, so these come after it. */
  async #dress(path: string, { uid, gid, mode, mtime }: TarHeader): Promise<void> {
    const all: Attributes[] = [{ uid, gid }, { mode: mode & 0o7777, mtime: timeOf(mtime) }];
    for (const attributes of all) await this.#sftp.set(path, attributes);
  }

  async #folder(path: string): Promise<void> {
    if (this.#known.has(path)) return;
    const found = await this.#sftp.stat(path);
    if (found && formatOf(found) !== FOLDER) throw inTheWay(path, "it is no folder");
    if (!found) {
      await this.#folder(posix.dirname(path));
      await this.#sftp.mkdir(path);
    }
    this.#known.add(path);
  }

  async finish(): Promise<void> {
    for (const [path, mtime] of [...this.#times].reverse()) {
      await this.#sftp.set(path, { mtime: timeOf(mtime) });
    }
  }
}

const timeOf = (seconds: number) => Math.min(Math.max(Math.trunc(seconds), 0), LAST_SECOND);

const inTheWay = (path: string, why: string) =>
  new SvcError("conflict", `Cannot copy to ${path}: ${why}`, { help: "copy to another path" });
