/** Work on whole trees, synchronously, in a Worker: counting, copying. */
import { readNames } from "../sys/directory.ts";
import { OpenFolder } from "../sys/open_folder.ts";
import { type FileStat, link, lstat, S_IFMT, S_IFSOCK, setTimes } from "../sys/files.ts";
import { isDirectory } from "./lower.ts";
import { copyFile, copyFolder, copyMetadata } from "./metadata.ts";

/** Bytes on disk of the folder's files, each counted once. */
export function treeSize(root: string): number {
  const seen = new Set<bigint>();
  let size = 0;
  using opened = new OpenFolder();
  const visit = (full: string, stat: FileStat) => {
    const folder = isDirectory(stat);
    if (stat.nlink === 1 || folder || !seen.has(stat.ino)) size += stat.blocks * 512;
    if (stat.nlink > 1) seen.add(stat.ino);
    if (!folder) return;
    for (const name of readNames(full)) visit(`${full}/${name}`, opened.at(full).lstat(name));
  };
  visit(root, lstat(root));
  return size;
}

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

/** Gives each folder of `to`, a copy of `from`, its original's time. */
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
