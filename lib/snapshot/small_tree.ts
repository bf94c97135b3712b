/** Recognises trees so small that handing them to a Worker would take longer than the work. */
import { decodeRaw } from "../base/raw_string.ts";
import { eachEntry } from "../sys/directory.ts";
import { S_IFMT, S_IFREG, tryLstat } from "../sys/files.ts";
import { isDirectory } from "./lower.ts";

const FEW_ENTRIES = 64;
const FEW_BYTES = 512 * 1024;

/** True where looking at all entries takes almost no time; with `contents`, reading the files too. */
export function isSmallTree(root: string, { contents }: { contents: boolean }): boolean {
  let entries = 0;
  let bytes = 0;
  const folders = [root];
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    const names: string[] = [];
    eachEntry(folder, (entry) => {
      if (++entries > FEW_ENTRIES) return false;
      names.push(decodeRaw(entry.bytes.subarray(entry.start, entry.end)));
    });
    if (entries > FEW_ENTRIES) return false;
    for (const name of names) {
      const stat = tryLstat(`${folder}/${name}`);
      if (!stat) continue;
      if (isDirectory(stat)) folders.push(`${folder}/${name}`);
      else if (contents && (stat.mode & S_IFMT) === S_IFREG) bytes += stat.size;
      if (bytes > FEW_BYTES) return false;
    }
  }
  return true;
}
