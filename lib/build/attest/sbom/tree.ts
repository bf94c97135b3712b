/** A mounted file system for scanners: reads are bounded, and no link leads out of the tree. */
import { SvcError } from "../../../base/errors.ts";
import { locate } from "../../../sys/rooted.ts";
import { readRootedText } from "../../../sys/rooted_file.ts";
import { tryLstat } from "../../../sys/files.ts";

/** Largest record, in bytes; package databases of large images have some megabytes. */
const MAX_RECORD = 64 << 20;

/** Folders that are skipped: packages install nothing there, and reading some of their files never ends. */
const SKIPPED = new Set(["/proc", "/sys", "/dev", "/run"]);

export interface Tree {
  /**
   * Text of a file; undefined where there is no regular file, or it is too large. Links are followed inside
   * the tree.
   */
  read(path: string): Promise<string | undefined>;
  /** Names in a folder, sorted; empty where there is no folder. */
  names(path: string): Promise<string[]>;
  /** Paths of all files that `wanted` accepts, sorted; links are not followed. */
  find(wanted: (path: string, name: string) => boolean, signal: AbortSignal): Promise<string[]>;
}

function readRecord(root: string, path: string): string | undefined {
  try {
    return readRootedText(root, path, MAX_RECORD);
  } catch (error) {
    if (error instanceof SvcError) return undefined;
    throw error;
  }
}

export function openTree(root: string): Tree {
  const real = (path: string) => locate(root, path).host;
  return {
    read: (path) => Promise.resolve(readRecord(root, path)),

    async names(path) {
      const host = real(path);
      const names: string[] = [];
      if (!tryLstat(host) || !(await Deno.lstat(host)).isDirectory) return names;
      for await (const { name } of Deno.readDir(host)) names.push(name);
      return names.sort();
    },

    async find(wanted, signal) {
      const found: string[] = [];
      const folders = [""];
      for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
        signal.throwIfAborted();
        for await (const { name, isDirectory, isFile } of Deno.readDir(`${root}${folder}`)) {
          const path = `${folder}/${name}`;
          if (isDirectory && !SKIPPED.has(path)) folders.push(path);
          else if (isFile && wanted(path, name)) found.push(path);
        }
      }
      return found.sort();
    },
  };
}
