/** What is mounted, from /proc/self/mountinfo (proc_pid_mountinfo(5)). */
import { isMountRoot } from "./files.ts";

export interface MountEntry {
  /** Where it is mounted. */
  target: string;
  /** File system type, such as "overlay". */
  type: string;
  source: string;
  /** Folder of the file system that is mounted: "/" but for bind mounts. */
  root: string;
  readOnly: boolean;
}

const unescape = (text: string) =>
  text.replace(/\\([0-7]{3})/g, (_, octal) => String.fromCharCode(parseInt(octal, 8)));

/** Parses the file's text; lines it does not understand are left out. */
export function parseMountinfo(text: string): MountEntry[] {
  const found: MountEntry[] = [];
  for (const line of text.split("\n")) {
    const [before, after] = line.split(" - ");
    const fields = before.split(" ");
    if (after === undefined || fields.length < 6) continue;
    const [type, source] = after.split(" ");
    found.push({
      target: unescape(fields[4]),
      root: unescape(fields[3]),
      type,
      source: unescape(source),
      readOnly: fields[5].split(",").includes("ro"),
    });
  }
  return found;
}

/** Every mount this process sees, in the order they were made. */
export async function mounts(): Promise<MountEntry[]> {
  return parseMountinfo(await Deno.readTextFile("/proc/self/mountinfo"));
}

/** True where `path` (absolute, links resolved) is a mount point. */
export async function isMounted(path: string): Promise<boolean> {
  return isMountRoot(path) ?? (await mounts()).some((entry) => entry.target === path);
}

/** Mount points at and below `path`, innermost first: the order to unmount in. */
export async function mountsUnder(path: string): Promise<MountEntry[]> {
  const inside = (await mounts()).filter((entry) =>
    entry.target === path || entry.target.startsWith(path.endsWith("/") ? path : `${path}/`)
  );
  return inside.reverse();
}
