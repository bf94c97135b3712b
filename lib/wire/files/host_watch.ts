/** Folders of this machine that are watched. */
import { type DescriptorStat, statBelow, statDescriptor } from "../../sys/entry_stat.ts";
import { procPath } from "../../sys/fd.ts";
import { O } from "../../sys/files.ts";
import { type FolderNews, watchFolder } from "../../sys/inotify.ts";
import { tryCall } from "../../sys/system_call.ts";
import { decodeRaw } from "../../base/raw_string.ts";
import { type HostTree } from "./host_tree.ts";
import { type KnownEntry, type WatchedFolder } from "./node.ts";
import { ERRNO, FileError, type NodeStat } from "./stat.ts";

/** File systems that others change too, which this machine's kernel is not told of: NFS, SMB, FUSE, 9P, Ceph, AFS. */
const SHARED: readonly bigint[] = [
  ...[0x6969n, 0xfe534d42n, 0xff534d42n, 0x65735546n],
  ...[0x01021997n, 0x00c36400n, 0x5346414fn],
];
const LISTED = 64 * 1024;

function requireLocal(fd: number): void {
  const words = new BigUint64Array(16);
  const done = tryCall("fstatfs", fd, new Uint8Array(words.buffer));
  if (done === 0 && !SHARED.includes(words[0] & 0xffff_ffffn)) return;
  throw new FileError(ERRNO.EOPNOTSUPP, "its changes are not told");
}

/** `at`: a descriptor of the folder. Throws EMFILE, and the system's errors. */
export function watchHostFolder(
  tree: HostTree,
  at: number,
  id: bigint,
  news: FolderNews,
): WatchedFolder {
  requireLocal(at);
  const fd = tree.openHere(-1, procPath(at), O.RDONLY | O.DIRECTORY);
  let end: () => Promise<void>;
  try {
    end = watchFolder(procPath(fd), news);
  } catch (error) {
    tree.close(fd);
    throw error;
  }
  const shown = (stat: DescriptorStat): NodeStat => ({ ...stat, ...tree.owner });
  const entry = (name: string): KnownEntry | undefined => {
    const stat = statBelow(fd, name);
    return stat && { name, id: tree.idOf(stat.dev, stat.ino), stat: shown(stat) };
  };
  return {
    id,
    entry,
    stat: () => shown(statDescriptor(fd)),
    entries(most) {
      const names = namesIn(tree, fd, most);
      return names?.map(entry).filter((one) => one !== undefined);
    },
    end() {
      tree.close(fd);
      return end();
    },
  };
}

/** Undefined where there are more than `most`. */
function namesIn(tree: HostTree, folder: number, most: number): string[] | undefined {
  const buffer = new Uint8Array(new ArrayBuffer(LISTED));
  const view = new DataView(buffer.buffer);
  const names: string[] = [];
  // A descriptor of its own begins at the first entry.
  const fd = tree.openHere(-1, procPath(folder), O.RDONLY | O.DIRECTORY);
  try {
    for (let size; (size = tryCall("getdents64", fd, buffer, LISTED)) !== 0;) {
      if (size < 0) throw new FileError(-size, "list");
      for (let at = 0; at < size; at += view.getUint16(at + 16, true)) {
        const name = decodeRaw(buffer.subarray(at + 19, buffer.indexOf(0, at + 19)));
        if (name !== "." && name !== "..") names.push(name);
      }
      if (names.length > most) return undefined;
    }
    return names;
  } finally {
    tree.close(fd);
  }
}
