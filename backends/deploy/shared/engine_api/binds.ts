/**
 * Host folders of a workload. The engine looks the path up again at every start of the container: so nobody else
 * may be able to change what it leads to. Of an engine elsewhere the server sees no folders at all.
 */
import { resolve } from "node:path";
import type { DeploySpec, MountSpec } from "../../../../lib/api/deploy_spec.ts";
import { SvcError } from "../../../../lib/base/errors.ts";
import { openSource } from "../../../../lib/deploy/bind_policy.ts";
import type { HostPaths } from "../../../../lib/docker/own_container.ts";

export interface BindPolicy {
  /** SVC_ALLOW_BIND_SOURCES. */
  allowed: readonly string[];
  /** How this server's paths appear on the engine's host. Absent: that is another host. */
  paths?: HostPaths;
}

/** Podman joins a mount's fields to one line and parses it: what is read as its syntax would add options. */
const SYNTAX = /[,"\r\n]/;

function requirePlain(path: string, field: string): void {
  if (!SYNTAX.test(path)) return;
  throw new SvcError(
    "spec_invalid",
    `Cannot mount ${path} (${field}): engines may read a comma, a double quote or the end of a line ` +
      "in it as options of the mount",
    { help: "name a path without these characters" },
  );
}

/** Throws `spec_invalid` for mounts and volumes that the engine could read as others. `sources`: the real paths. */
export function requirePlainMounts(
  { mounts, volumes }: Pick<DeploySpec, "mounts" | "volumes">,
  sources: readonly string[],
): void {
  for (const [index, { source, target }] of mounts.entries()) {
    requirePlain(source, `mounts[${index}].source`);
    requirePlain(sources[index], `mounts[${index}].source`);
    requirePlain(target, `mounts[${index}].target`);
  }
  for (const [index, { target }] of volumes.entries()) {
    requirePlain(target, `volumes[${index}].target`);
  }
}

const isBelow = (path: string, folder: string) =>
  path !== folder && path.startsWith(folder === "/" ? folder : `${folder}/`);

/** The source's real path on the engine's host, which the spec names. Throws `denied` or `not_found`. */
async function realSource(
  { source }: MountSpec,
  field: string,
  { allowed, paths }: BindPolicy,
): Promise<string> {
  const path = resolve("/", source);
  const here = paths?.toServer(path);
  if (!paths || here === undefined) {
    if (allowed.some((prefix) => resolve("/", prefix) === path)) return path;
    throw new SvcError("denied", `Cannot mount ${source} (${field}): its source is not allowed`, {
      help: allowed.length > 0
        ? `this server does not see that folder of the engine's host: exactly ${
          allowed.join(", ")
        } ` +
          "may be mounted"
        : "set SVC_ALLOW_BIND_SOURCES on the server to the folders that may be mounted",
    });
  }
  const seen = allowed.flatMap((prefix) => paths.seenOf(resolve("/", prefix)));
  using opened = await openSource(here, seen, field);
  // Not by its name: that may lead elsewhere by now.
  return paths.toHost(await Deno.readLink(`/proc/self/fd/${opened.fd}`));
}

/** Where a mount of another deployment leads, as far as this server sees it. */
async function sourceOf({ source }: MountSpec, paths?: HostPaths): Promise<string> {
  const path = resolve("/", source);
  const here = paths?.toServer(path);
  if (!paths || here === undefined) return path;
  try {
    return paths.toHost(await Deno.realPath(here));
  } catch {
    return path; // gone by now, or led out of what the engine sees
  }
}

/**
 * The real paths of the spec's mounts. Throws `conflict` where a workload that may write to a folder could put
 * another one's source elsewhere: by a link in the place of a folder on its way.
 */
export async function bindSources(
  spec: DeploySpec,
  others: readonly DeploySpec[],
  policy: BindPolicy,
): Promise<string[]> {
  const sources = await Promise.all(
    spec.mounts.map((mount, index) => realSource(mount, `mounts[${index}].source`, policy)),
  );
  const own = spec.mounts.map(({ readOnly = false }, index) => ({
    by: spec.name,
    path: sources[index],
    readOnly,
  }));
  const theirs = await Promise.all(
    others.filter(({ name }) => name !== spec.name).flatMap(({ name, mounts }) =>
      mounts.map(async (mount) => ({
        by: name,
        path: await sourceOf(mount, policy.paths),
        readOnly: mount.readOnly ?? false,
      }))
    ),
  );
  for (const mine of own) {
    for (const other of [...own, ...theirs]) {
      const [inner, outer] = isBelow(mine.path, other.path) ? [mine, other] : [other, mine];
      if (outer.readOnly || !isBelow(inner.path, outer.path)) continue;
      throw new SvcError(
        "conflict",
        `Cannot mount ${mine.path}: ${outer.by} may write to ${outer.path}, and so could replace ` +
          `${inner.path} of ${inner.by}`,
        { help: "mount the outer folder read-only, or folders that are beside each other" },
      );
    }
  }
  return sources;
}
