/**
 * Unpacks an archive into a folder of this machine, on any system. The archive may be hostile: nothing is written
 * outside the folder or through a link in it.
 */
import { basename, dirname, join } from "../../base/path.ts";
import { SvcError, systemCode } from "../../base/errors.ts";
import { ensureDir, ifThere } from "../../base/fs.ts";
import { readTar, type TarEntry } from "../../oci/tar_read.ts";
import type { TarHeader } from "../../oci/tar.ts";

const refuse = (path: string, why: string) =>
  new SvcError("archive_invalid", `Cannot unpack ${JSON.stringify(path)}: ${why}`);

const WINDOWS = Deno.build.os === "windows";

/** Path components below the root; empty for the root. Throws for a path that leaves the root. */
function partsOf(path: string): string[] {
  if (!path.isWellFormed()) throw refuse(path, "its name is not UTF-8");
  const parts = path.split("/").filter((part) => part !== "" && part !== ".");
  if (parts.includes("..") || parts.some((part) => WINDOWS && /[\\:\0]/.test(part))) {
    throw refuse(path, "it leads out of the folder");
  }
  return parts;
}

const lstat = (path: string) => ifThere(Deno.lstat(path));

export interface Extracted {
  files: number;
  /** Total size of the files. */
  bytes: number;
  /** Number of device nodes and pipes, which are not unpacked. */
  skipped: number;
}

export interface ExtractOptions {
  signal?: AbortSignal;
  /** Where a path of the archive belongs in the folder, in components. Throws for one that must not be there. */
  place?: (parts: string[]) => string[];
  /**
   * True: with the archive's owners, and with the setuid and setgid bits. Otherwise everything belongs to the
   * user who runs the command, and root's programs of an image cannot run as root here.
   */
  owners?: boolean;
}

class Extractor {
  readonly #root: string;
  readonly #options: ExtractOptions;
  /** Paths known to be folders, not links. */
  #folders = new Set<string>();
  /** Modes and times of folders, set at the end: writing into a folder would change its time. */
  #later: [path: string, header: TarHeader][] = [];
  readonly result: Extracted = { files: 0, bytes: 0, skipped: 0 };

  constructor(root: string, options: ExtractOptions) {
    this.#root = root;
    this.#options = options;
  }

  #parts(path: string): string[] {
    const parts = partsOf(path);
    return this.#options.place?.(parts) ?? parts;
  }

  async #folder(parts: readonly string[], shown: string): Promise<string> {
    let path = this.#root;
    for (const part of parts) {
      path = join(path, part);
      if (this.#folders.has(path)) continue;
      const there = await lstat(path);
      if (!there) await Deno.mkdir(path);
      else if (!there.isDirectory) throw refuse(shown, `${path} is in the way: it is no folder`);
      this.#folders.add(path);
    }
    return path;
  }

  /** The path of something that is no folder; what is there is removed. */
  async #free(parts: readonly string[], shown: string): Promise<string> {
    if (parts.length === 0) throw refuse(shown, "it has no name");
    const path = join(await this.#folder(parts.slice(0, -1), shown), parts.at(-1)!);
    const there = await lstat(path);
    if (there?.isDirectory) throw refuse(shown, `${path} is in the way: it is a folder`);
    if (there && !there.isFile && !there.isSymlink) {
      throw refuse(shown, `${path} is in the way: it is no regular file`);
    }
    if (there) await Deno.remove(path);
    return path;
  }

  async add(entry: Pick<TarEntry, "header" | "parts">): Promise<void> {
    const { header } = entry;
    const parts = this.#parts(header.path);
    if (header.type === "directory") {
      const path = await this.#folder(parts, header.path);
      if (parts.length > 0) this.#later.push([path, header]);
      return;
    }
    if (["char", "block", "fifo"].includes(header.type)) {
      this.result.skipped++;
      return;
    }
    const path = await this.#free(parts, header.path);
    if (header.type === "symlink") {
      await Deno.symlink(header.linkpath, path);
      return await this.#own(path, header);
    }
    if (header.type === "hardlink") {
      const target = this.#parts(header.linkpath);
      const from = join(await this.#folder(target.slice(0, -1), header.path), target.at(-1) ?? "");
      if ((await lstat(from))?.isFile !== true) throw refuse(header.path, "its target is no file");
      return await Deno.link(from, path);
    }
    await write(path, entry);
    this.result.files++;
    this.result.bytes += header.size;
    await this.#settle(path, header);
  }

  async finish(): Promise<Extracted> {
    for (const [path, header] of this.#later.reverse()) await this.#settle(path, header);
    return this.result;
  }

  /** Gives the file, or the link itself, the archive's owner. */
  async #own(path: string, { uid, gid }: TarHeader): Promise<void> {
    if (!this.#options.owners) return;
    const { lchown } = process.getBuiltinModule("node:fs/promises");
    try {
      await lchown(path, uid, gid);
    } catch (cause) {
      if (systemCode(cause) !== "EPERM") throw cause;
      throw new SvcError("argument_invalid", `Cannot give ${path} its owner: only root can`, {
        cause,
        help: "leave out the owners",
      });
    }
  }

  async #settle(path: string, header: TarHeader): Promise<void> {
    const { mode, mtime } = header;
    await this.#own(path, header);
    // After the owner: a change of owner clears setuid.
    if (!WINDOWS) await Deno.chmod(path, this.#options.owners ? mode : mode & PERMISSIONS);
    await Deno.utime(path, mtime, mtime);
  }
}

/** Without setuid and setgid. */
const PERMISSIONS = 0o1777;

/** Writes a file with its holes as holes. */
async function write(path: string, { header, parts }: Pick<TarEntry, "header" | "parts">) {
  // Its mode is set when it is whole: nobody else may read it until then.
  using file = await Deno.open(path, { write: true, createNew: true, mode: 0o600 });
  let ends = 0;
  for await (const part of parts()) {
    if (typeof part === "number") ends = await file.seek(part, Deno.SeekMode.Current);
    else for (let at = 0; at < part.length;) at += await file.write(part.subarray(at));
  }
  if (ends === header.size) await file.truncate(header.size);
}

/** Unpacks into `folder`, which is made if missing; existing files are replaced. Throws `archive_invalid`. */
export async function extractArchive(
  stream: ReadableStream<Uint8Array>,
  folder: string,
  options: ExtractOptions = {},
): Promise<Extracted> {
  await ensureDir(join(dirname(folder), basename(folder)));
  const extractor = new Extractor(await Deno.realPath(folder), options);
  for await (const entry of readTar(stream, options)) await extractor.add(entry);
  return await extractor.finish();
}
