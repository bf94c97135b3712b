/** SVC_ALLOW_BIND_SOURCES: the host paths that a workload may mount. No prefix: none. */
import { resolve } from "node:path";
import { SvcError } from "../base/errors.ts";
import { SystemError } from "../sys/errno.ts";
import { close, open } from "../sys/fd.ts";
import { O } from "../sys/files.ts";
import { openBelow, RESOLVE } from "../sys/rooted_file.ts";

const under = (path: string, prefix: string) =>
  prefix === "/" || path === prefix || path.startsWith(`${prefix}/`);

/**
 * The prefixes that are not below another prefix. A workload that may write to the outer folder could replace
 * the inner one by a link, and the link's target would be permitted.
 */
function outermost(prefixes: readonly string[]): string[] {
  const all = [...new Set(prefixes.map((prefix) => resolve("/", prefix)))];
  return all.filter((one) => !all.some((other) => other !== one && under(one, other)));
}

/** An open bind source. */
export interface OpenSource extends Disposable {
  /** A descriptor opened with O_PATH: it is mounted, wherever its path leads by then. */
  fd: number;
}

/**
 * Opens a bind source that the policy allows. First its links are followed. Then their target is opened
 * without following any link. So no link in an allowed folder leads out of it, not even
 * one that is created meanwhile. Throws `denied`, or `not_found` for a missing source.
 */
export async function openSource(
  source: string,
  prefixes: readonly string[],
  field: string,
): Promise<OpenSource> {
  const refuse = (path: string, why = "its source is not allowed") =>
    new SvcError("denied", `Cannot mount ${path} (${field}): ${why}`, {
      help: prefixes.length > 0
        ? `SVC_ALLOW_BIND_SOURCES allows ${prefixes.join(", ")}`
        : "set SVC_ALLOW_BIND_SOURCES on the server to the folders that may be mounted",
      detail: { bindSource: source },
    });
  const written = resolve("/", source);
  const permitted = outermost(prefixes);
  if (!permitted.some((prefix) => under(written, prefix))) throw refuse(source);
  let real: string;
  try {
    real = await Deno.realPath(written);
  } catch (error) {
    const { NotFound, NotADirectory, FilesystemLoop } = Deno.errors;
    const missing = [NotFound, NotADirectory, FilesystemLoop].some((kind) => error instanceof kind);
    if (!missing) throw error;
    throw new SvcError("not_found", `Cannot mount ${source} (${field}): no such file or folder`, {
      help: "create it on the server's host, or correct the path",
    });
  }
  const roots = await Promise.all(
    permitted.map((prefix) => Deno.realPath(prefix).catch(() => prefix)),
  );
  if (!roots.some((root) => under(real, root))) throw refuse(real);
  try {
    const fd = openPlain(real);
    return { fd, [Symbol.dispose]: () => close(fd) };
  } catch (error) {
    if (!(error instanceof SystemError)) throw error;
    throw refuse(source, `its path changed meanwhile (${error.code})`);
  }
}

/**
 * Opens a path without following a link, not even in the place of the source itself: O_NOFOLLOW would open that
 * link, and whoever is given the open link follows it.
 */
function openPlain(path: string): number {
  const top = open("/", O.PATH | O.DIRECTORY);
  try {
    return openBelow(top, path.slice(1) || ".", O.PATH, RESOLVE.BENEATH | RESOLVE.NO_SYMLINKS);
  } finally {
    close(top);
  }
}
