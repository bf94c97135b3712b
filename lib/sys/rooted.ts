/**
 * Resolves paths inside a tree, with the tree as "/" for links: what an archive, a Dockerfile or a container
 * can reach.
 */
import { SvcError } from "../base/errors.ts";
import { readlink, S_IFDIR, S_IFLNK, S_IFMT, tryLstat } from "./files.ts";

const MAX_LINKS = 40;

export interface Located {
  /** Path on this host. */
  host: string;
  /** Path relative to the root, without "." and ".."; "" is the root. */
  inside: string;
}

/**
 * Resolves `path` inside `root`. Components that do not exist are kept as written, so that the result can be
 * created. `follow: false` does not resolve the last component. `..` at the root stays there; with `confined`
 * it is an error. The tree must not change meanwhile. Throws `argument_invalid` for endless links, and with
 * `confined` for links that lead out.
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

/** True for a folder; false for a link to one. */
export function isDirectory(host: string): boolean {
  const stat = tryLstat(host);
  return stat !== undefined && (stat.mode & S_IFMT) === S_IFDIR;
}
