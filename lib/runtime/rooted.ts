/** Paths inside a root file system, resolved as the container would: no link leads out of the root. */
import { join } from "node:path";
import { SvcError } from "../base/errors.ts";

const MAX_LINKS = 40;

/**
 * The host path of `path` inside `root`, every symbolic link followed with `root` as "/". Components
 * that do not exist are kept as written, so the result can be created. The tree must not change meanwhile.
 */
export async function resolveInRoot(root: string, path: string): Promise<string> {
  const pending = path.split("/").reverse();
  const done: string[] = [];
  let links = 0;
  while (pending.length > 0) {
    const part = pending.pop()!;
    if (part === "" || part === ".") continue;
    if (part === "..") {
      done.pop();
      continue;
    }
    const candidate = join(root, ...done, part);
    const target = await Deno.readLink(candidate).catch(() => undefined);
    if (target === undefined) {
      done.push(part);
      continue;
    }
    if (++links > MAX_LINKS) {
      throw new SvcError("argument_invalid", `Cannot resolve ${path}: too many symbolic links`);
    }
    if (target.startsWith("/")) done.length = 0;
    pending.push(...target.split("/").reverse());
  }
  return join(root, ...done);
}

/** The text of a file inside `root`; undefined where it is missing. */
export async function readInRoot(root: string, path: string): Promise<string | undefined> {
  try {
    return await Deno.readTextFile(await resolveInRoot(root, path));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) {
      return undefined;
    }
    throw error;
  }
}
