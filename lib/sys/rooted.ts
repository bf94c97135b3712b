/** Paths inside a tree, links resolved with the tree as "/": what an archive, a Dockerfile or a container can reach. */
import { SvcError } from "../base/errors.ts";
import { readlink, S_IFDIR, S_IFLNK, S_IFMT, tryLstat } from "./files.ts";

const MAX_LINKS = 40;

export interface Located {
  /** Path on this host. */
  host: string;
  /** The same below the root: relative, without "." and ".."; "" is the root. */
  inside: string;
}

/**
 * Where `path` leads inside `root`. Components that do not exist are kept as written, so the result can
 * be created. `follow: false` leaves the last component as it is. `..` at the root stays there, or with
 * `confined` is an error. The tree must not change meanwhile. Throws `argument_invalid` for links without
 * end, and for those that lead out.
 */
export function locate(
  root: string,
  path: string,
  options: { follow?: boolean; confined?: boolean } = {},
): Located {
  const pending = path.split("/").reverse();
  const done: string[] = [];
  let links = 0;
  while (pending.length > 0) {
    const part = pending.pop()!;
    if (part === "" || part === ".") continue;
    if (part === "..") {
      if (done.pop() === undefined && options.confined) {
        throw new SvcError(
          "argument_invalid",
          `Cannot resolve ${path}: a link leads out of its root`,
        );
      }
      continue;
    }
    done.push(part);
    const last = pending.every((rest) => rest === "" || rest === ".");
    if (last && options.follow === false) continue;
    const host = `${root}/${done.join("/")}`;
    const stat = tryLstat(host);
    if (!stat || (stat.mode & S_IFMT) !== S_IFLNK) continue;
    if (++links > MAX_LINKS) {
      throw new SvcError("argument_invalid", `Cannot resolve ${path}: too many symbolic links`);
    }
    const target = readlink(host);
    if (target.startsWith("/")) done.length = 0;
    else done.pop();
    pending.push(...target.split("/").reverse());
  }
  const inside = done.join("/");
  return { host: inside === "" ? root : `${root}/${inside}`, inside };
}

/** True for a folder itself, not for a link to one. */
export function isDirectory(host: string): boolean {
  const stat = tryLstat(host);
  return stat !== undefined && (stat.mode & S_IFMT) === S_IFDIR;
}
