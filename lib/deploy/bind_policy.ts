/** SVC_ALLOW_BIND_SOURCES: which host paths a workload may mount. Without a prefix: none. */
import { resolve } from "node:path";
import { SvcError } from "../base/errors.ts";

/**
 * The real path of a bind source that the policy allows. Links are followed first, so that a link inside
 * an allowed folder cannot lead out of it. Throws `denied`, or `not_found` for a missing source.
 */
export async function allowedSource(
  source: string,
  prefixes: readonly string[],
  field: string,
): Promise<string> {
  const refuse = (path: string) =>
    new SvcError("denied", `Cannot mount ${path} (${field}): its source is not allowed`, {
      help: prefixes.length > 0
        ? `SVC_ALLOW_BIND_SOURCES allows ${prefixes.join(", ")}`
        : "set SVC_ALLOW_BIND_SOURCES on the server to the folders that may be mounted",
    });
  const under = (path: string, prefix: string) =>
    prefix === "/" || path === prefix || path.startsWith(`${prefix}/`);
  const written = resolve("/", source);
  if (!prefixes.some((prefix) => under(written, resolve("/", prefix)))) throw refuse(source);
  let real: string;
  try {
    real = await Deno.realPath(written);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    throw new SvcError("not_found", `Cannot mount ${source} (${field}): no such file or folder`, {
      help: "create it on the server's host, or correct the path",
    });
  }
  const roots = await Promise.all(
    prefixes.map((prefix) => Deno.realPath(prefix).catch(() => resolve("/", prefix))),
  );
  if (!roots.some((root) => under(real, root))) throw refuse(source);
  return real;
}
