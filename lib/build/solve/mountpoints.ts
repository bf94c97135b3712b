/**
 * Mount points in the root: the runtime needs them to exist. They are made before a step and removed after
 * it, so that the layer gets no empty /proc or /etc/resolv.conf.
 */
import { SvcError } from "../../base/errors.ts";
import { readNames } from "../../sys/directory.ts";
import { close, open } from "../../sys/fd.ts";
import { chmod, mkdir, O, rmdir, setTimes, tryLstat, unlink } from "../../sys/files.ts";
import { isDirectory, locate } from "../../sys/rooted.ts";

export interface MountPoint {
  /** Absolute inside the root. */
  target: string;
  kind: "directory" | "file";
  /** Mode of a folder that has to be made; default 0o755. A tmpfs mounted on it has the same mode. */
  mode?: number;
}

interface Times {
  mtime: number;
  mtimeNs: number;
}

/** File systems that every container gets. */
export const SYSTEM_POINTS: MountPoint[] = ["/proc", "/sys", "/dev"].map((target) => ({
  target,
  kind: "directory",
}));

const timesOf = (host: string): Times => {
  const { mtime, mtimeNs } = tryLstat(host)!;
  return { mtime, mtimeNs };
};

class MountPoints {
  #made: { host: string; kind: MountPoint["kind"] }[] = [];
  /** Parent folders that existed before, with their times before and after the mount points were made. */
  #parents = new Map<string, { before: Times; after: Times }>();

  make(root: string, { target, kind, mode = 0o755 }: MountPoint): void {
    const found = locate(root, target);
    const parts = found.inside === "" ? [] : found.inside.split("/");
    let host = root;
    for (const [index, part] of parts.entries()) {
      const parent = host;
      host += `/${part}`;
      if (tryLstat(host)) continue;
      const before = this.#parents.get(parent)?.before ?? timesOf(parent);
      const made = index < parts.length - 1 ? "directory" : kind;
      if (made === "directory") {
        mkdir(host, 0o755);
        chmod(host, index < parts.length - 1 ? 0o755 : mode);
      } else close(open(host, O.WRONLY | O.CREAT | O.EXCL, 0o644));
      const own = this.#made.some((other) => other.host === parent);
      this.#made.push({ host, kind: made });
      if (!own) this.#parents.set(parent, { before, after: timesOf(parent) });
    }
    if (isDirectory(found.host) !== (kind === "directory")) {
      throw new SvcError(
        "build_failed",
        `cannot mount a ${kind} at ${target}: the image has a ${
          kind === "file" ? "folder" : "file"
        } there`,
      );
    }
  }

  /** Removes the mount points that are unchanged. A parent folder that the step changed keeps its new time. */
  remove(): void {
    const untouched = [...this.#parents].filter(([host, { after }]) => {
      const stat = tryLstat(host);
      return stat && stat.mtime === after.mtime && stat.mtimeNs === after.mtimeNs;
    });
    for (const { host, kind } of this.#made.reverse()) {
      const stat = tryLstat(host);
      if (!stat || isDirectory(host) !== (kind === "directory")) continue;
      if (kind === "directory") {
        if (readNames(host).length === 0) rmdir(host);
      } else if (stat.size === 0) unlink(host);
    }
    for (const [host, { before }] of untouched) setTimes(host, before.mtime, before.mtimeNs);
  }
}

/** Makes the missing mount points, parents first; the result removes them. */
export function makeMountPoints(root: string, points: MountPoint[]): { remove(): void } {
  const made = new MountPoints();
  try {
    for (const point of points) made.make(root, point);
  } catch (error) {
    made.remove();
    throw error;
  }
  return made;
}
