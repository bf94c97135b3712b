/**
 * Unpacks an archive into a folder of this machine, on any system. Files, folders and links belong to the user
 * who runs the command. Nothing is written outside the folder or through a link in it.
 */
import { basename, dirname, join } from "../../base/path.ts";
import { SvcError } from "../../base/errors.ts";
import { ensureDir } from "../../base/fs.ts";
import { readTar } from "../../oci/tar_read.ts";
import type { TarHeader } from "../../oci/tar.ts";

const refuse = (path: string, why: string) =>
  new SvcError("archive_invalid", `Cannot unpack ${JSON.stringify(path)}: ${why}`);

/** Path components below the root; "" is the root. Throws for a path that leaves the root. */
function partsOf(path: string): string[] {
  const parts = path.split("/").filter((part) => part !== "" && part !== ".");
  if (
    parts.includes("..") || parts.some((part) => /[\\\0]/.test(part) && Deno.build.os === "windows")
  ) {
    throw refuse(path, "it leads out of the folder");
  }
  return parts;
}

async function lstat(path: string): Promise<Deno.FileInfo | undefined> {
  try {
    return await Deno.lstat(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

export interface Extracted {
  files: number;
  /** Total size of the files. */
  bytes: number;
  /** Number of device nodes and pipes, which are not unpacked. */
  skipped: number;
}

class Extractor {
  #root: string;
  /** Paths known to be folders, not links. */
  #folders = new Set<string>();
  /** Modes and times of folders, set at the end: writing into a folder would change its time. */
  #later: [path: string, header: TarHeader][] = [];
  readonly result: Extracted = { files: 0, bytes: 0, skipped: 0 };

  constructor(root: string) {
    this.#root = root;
  }

  async #folder(parts: readonly string[], shown: string): Promise<string> {
    let path = this.#root;
    for (const part of parts) {
      path = join(path, part);
      if (this.#folders.has(path)) continue;
      const there = await lstat(path);
      if (!there) await Deno.mkdir(path);
      else if (!there.isDirectory) throw refuse(shown, `${path} is in the way: it is not a folder`);
      this.#folders.add(path);
    }
    return path;
  }

  async add(header: TarHeader, body: ReadableStream<Uint8Array>): Promise<void> {
    const parts = partsOf(header.path);
    if (header.type === "directory") {
      const path = await this.#folder(parts, header.path);
      if (parts.length > 0) this.#later.push([path, header]);
      return;
    }
    if (["char", "block", "fifo"].includes(header.type)) {
      this.result.skipped++;
      return;
    }
    if (parts.length === 0) throw refuse(header.path, "it has no name");
    const parent = await this.#folder(parts.slice(0, -1), header.path);
    const path = join(parent, parts.at(-1)!);
    const there = await lstat(path);
    if (there?.isDirectory) throw refuse(header.path, `${path} is in the way: it is a folder`);
    if (there) await Deno.remove(path);
    if (header.type === "symlink") return await Deno.symlink(header.linkpath, path);
    if (header.type === "hardlink") {
      const target = partsOf(header.linkpath);
      const from = join(await this.#folder(target.slice(0, -1), header.path), target.at(-1) ?? "");
      if ((await lstat(from))?.isFile !== true) {
        throw refuse(header.path, "its target is not a file");
      }
      return await Deno.link(from, path);
    }
    await Deno.writeFile(path, body, { createNew: true });
    this.result.files++;
    this.result.bytes += header.size;
    await settle(path, header);
  }

  async finish(): Promise<Extracted> {
    for (const [path, header] of this.#later.reverse()) await settle(path, header);
    return this.result;
  }
}

/** Setuid and setgid bits are dropped: root's programs of the image must not run as root here. */
const PERMISSIONS = 0o1777;

async function settle(path: string, { mode, mtime }: TarHeader): Promise<void> {
  if (Deno.build.os !== "windows") await Deno.chmod(path, mode & PERMISSIONS);
  await Deno.utime(path, mtime, mtime);
}

/** Unpacks into `folder`, which is made if missing; existing files are replaced. Throws `archive_invalid`. */
export async function extractArchive(
  stream: ReadableStream<Uint8Array>,
  folder: string,
  signal?: AbortSignal,
): Promise<Extracted> {
  await ensureDir(join(dirname(folder), basename(folder)));
  const extractor = new Extractor(await Deno.realPath(folder));
  for await (const { header, body } of readTar(stream, { signal })) {
    await extractor.add(header, body);
  }
  return await extractor.finish();
}
