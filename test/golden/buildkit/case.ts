/** One Dockerfile with its surroundings, and its context as a folder (for docker) or an archive (for svc). */
import { dirname, join } from "node:path";
import type { TarFields } from "../../../lib/oci/tar_write.ts";
import { chmod, mknod, S_IFIFO, setTimes } from "../../../lib/sys/files.ts";
import { setXattr } from "../../../lib/sys/xattr.ts";

export interface ContextFile {
  data?: string | Uint8Array;
  /** Target of a symbolic link. */
  link?: string;
  /** Path of a file before this one that has the same inode. */
  hard?: string;
  directory?: boolean;
  fifo?: boolean;
  mode?: number;
  /** Seconds since 1970; default {@linkcode FILE_TIME}. */
  mtime?: number;
  mtimeNs?: number;
  xattrs?: Record<string, string>;
}

export type ContextFiles = Record<string, string | ContextFile>;

/** Modification time of what a context holds, unless it says otherwise. */
export const FILE_TIME = 1_500_000_000;

/** When the base image was made: files that a step dates before it keep their time. */
export const BASE_CREATED = "2023-01-01T00:00:00Z";

export interface Case {
  /** Of the golden file. */
  name: string;
  /** Text; `{{http}}` and `{{git}}` become the addresses of servers with what `serve` and `git` hold. */
  dockerfile: string;
  files?: ContextFiles;
  buildArgs?: Record<string, string>;
  labels?: Record<string, string>;
  target?: string;
  platform?: string;
  /** `docker-image://…`, or the files of a folder. */
  contexts?: Record<string, string | ContextFiles>;
  secrets?: Record<string, string>;
  addHosts?: string[];
  network?: "none";
  /** Files behind `{{http}}`, and the Last-Modified they have. */
  serve?: Record<string, string | Uint8Array>;
  /** The build has to fail; BuildKit's too, unless that is deliberate. */
  fails?: true;
  /** Why svc differs here; which paths are left out of the comparison. */
  deliberate?: { why: string; paths?: string[]; history?: true };
}

interface Entry extends Omit<ContextFile, "data"> {
  path: string;
  data: Uint8Array;
}

/** Entries in order, folders that no entry names put in front of what is in them. */
export function entriesOf(files: ContextFiles): Entry[] {
  const found = new Map<string, Entry>();
  const encoder = new TextEncoder();
  for (const [path, file] of Object.entries(files)) {
    const parents: string[] = [];
    for (let at = dirname(path); at !== "."; at = dirname(at)) parents.unshift(at);
    for (const parent of parents) {
      if (!found.has(parent)) {
        found.set(parent, { path: parent, directory: true, data: new Uint8Array() });
      }
    }
    const { data = "", ...rest } = typeof file === "string" ? { data: file } : file;
    found.set(path, {
      path,
      ...rest,
      data: typeof data === "string" ? encoder.encode(data) : data,
    });
  }
  return [...found.values()];
}

const modeOf = (entry: Entry) => entry.mode ?? (entry.directory ? 0o755 : 0o644);

export function tarEntries(files: ContextFiles): (TarFields & { body?: Uint8Array })[] {
  const encoder = new TextEncoder();
  return entriesOf(files).map((entry) => {
    const common = {
      path: entry.path,
      mtime: entry.mtime ?? FILE_TIME,
      mtimeNs: entry.mtimeNs ?? 0,
      mode: modeOf(entry),
      xattrs: new Map(
        Object.entries(entry.xattrs ?? {}).map(([name, value]) => [name, encoder.encode(value)]),
      ),
    };
    if (entry.directory) return { ...common, type: "directory" };
    if (entry.fifo) return { ...common, type: "fifo" };
    if (entry.link !== undefined) return { ...common, type: "symlink", linkpath: entry.link };
    if (entry.hard !== undefined) return { ...common, type: "hardlink", linkpath: entry.hard };
    return { ...common, type: "file", size: entry.data.length, body: entry.data };
  });
}

/** Writes the files into a folder that exists. */
export async function writeFiles(root: string, files: ContextFiles): Promise<void> {
  const entries = entriesOf(files);
  const encoder = new TextEncoder();
  for (const entry of entries) {
    const host = join(root, entry.path);
    if (entry.directory) await Deno.mkdir(host, { recursive: true });
    else if (entry.fifo) mknod(host, S_IFIFO | modeOf(entry));
    else if (entry.link !== undefined) await Deno.symlink(entry.link, host);
    else if (entry.hard !== undefined) await Deno.link(join(root, entry.hard), host);
    else await Deno.writeFile(host, entry.data);
    for (const [name, value] of Object.entries(entry.xattrs ?? {})) {
      setXattr(host, name, encoder.encode(value));
    }
    if (entry.link === undefined) chmod(host, modeOf(entry));
  }
  for (const entry of entries.reverse()) {
    setTimes(join(root, entry.path), entry.mtime ?? FILE_TIME, entry.mtimeNs);
  }
}
