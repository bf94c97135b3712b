/** Work on whole trees, synchronously, in a Worker: counting, clamping times, copying. */
import { readNames } from "../sys/directory.ts";
import { OpenFolder } from "../sys/open_folder.ts";
import { type FileStat, link, lstat, S_IFMT, S_IFSOCK, setTimes } from "../sys/files.ts";
import type { DiffSource } from "./diff_tree.ts";
import { isDirectory, joinPath, LowerTree } from "./lower.ts";
import { copyFile, copyFolder, copyMetadata } from "./metadata.ts";

/**
 * Sets the times of changed files that are later than `clamp` (seconds) to it, and counts the bytes on
 * disk of what the tree holds, each file once. A file whose time is the lower tree's is not changed.
 */
export function finishTree(source: DiffSource & { clamp?: number }): { size: number } {
  const { root, clamp } = source;
  const lower = new LowerTree(source.lower, source.overlay);
  const seen = new Set<bigint>();
  let size = 0;
  using opened = new OpenFolder();
  // `covers`: the lower tree has the folder that it is in; else it cannot have it either.
  const visit = (path: string, full: string, stat: FileStat, covers: boolean) => {
    if (stat.nlink === 1 || isDirectory(stat) || !seen.has(stat.ino)) size += stat.blocks * 512;
    if (stat.nlink > 1) seen.add(stat.ino);
    const folder = isDirectory(stat);
    const isLate = clamp !== undefined && later(stat, clamp);
    const below = covers && (folder || isLate) ? lower.lookup(path)?.stat : undefined;
    if (folder) {
      const inner = below !== undefined && isDirectory(below);
      for (const name of readNames(full)) {
        const found = opened.at(full).lstat(name);
        visit(joinPath(path, name), `${full}/${name}`, found, inner);
      }
    }
    if (!isLate) return;
    if (below?.mtime === stat.mtime && below.mtimeNs === stat.mtimeNs) return;
    setTimes(full, clamp, 0);
  };
  visit("", root, lstat(root), true);
  return { size };
}

const later = (stat: FileStat, clamp: number) =>
  stat.mtime > clamp || stat.mtime === clamp && stat.mtimeNs > 0;

/** Copies the tree `from` into the existing folder `to`, hard links and times too; sockets are left out. */
export function copyTree(from: string, to: string): void {
  const links = new Map<string, string>();
  const copy = (source: string, target: string, stat: FileStat) => {
    for (const name of readNames(source)) {
      const child = `${source}/${name}`, copied = `${target}/${name}`;
      const there = lstat(child);
      if ((there.mode & S_IFMT) === S_IFSOCK) continue;
      if (isDirectory(there)) {
        copyFolder(child, there, copied);
        copy(child, copied, there);
        continue;
      }
      const key = there.nlink > 1 ? `${there.devMajor}:${there.devMinor}:${there.ino}` : "";
      const first = key && links.get(key);
      if (first) link(first, copied);
      else {
        copyFile(child, there, copied);
        if (key) links.set(key, copied);
      }
    }
    setTimes(target, stat.mtime, stat.mtimeNs);
  };
  const stat = lstat(from);
  copyMetadata(from, stat, to);
  copy(from, to, stat);
}

/** Gives each folder of `to`, a copy of `from`, the time that its original has. */
export function copyFolderTimes(from: string, to: string): void {
  for (const name of readNames(from)) {
    const child = `${from}/${name}`;
    if (isDirectory(lstat(child))) copyFolderTimes(child, `${to}/${name}`);
  }
  const { mtime, mtimeNs } = lstat(from);
  setTimes(to, mtime, mtimeNs);
}

/** Gives the folder `to` the owner, mode, attributes and time of `from`. */
export function likeFolder(from: string, to: string): void {
  const stat = lstat(from);
  copyMetadata(from, stat, to);
  setTimes(to, stat.mtime, stat.mtimeNs);
}
