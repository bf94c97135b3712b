/**
 * Host folders of a workload. The engine looks the path up again at every start of the container: so nobody else
 * may be able to change what it leads to. Of an engine elsewhere the server sees no folders at all.
 */
import { resolve } from "node:path";
import type { DeploySpec, MountSpec } from "../../../../lib/api/deploy_spec.ts";
import { SvcError } from "../../../../lib/base/errors.ts";
import { openSource } from "../../../../lib/deploy/bind_policy.ts";
import type { HostPaths } from "../../../../lib/docker/own_container.ts";
import type { Inspected } from "./inspect.ts";
import { attachedSources, DEPLOYMENT } from "./labels.ts";

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
  { source }: Pick<MountSpec, "source">,
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

/** A host folder of a workload. */
interface Held {
  by: string;
  path: string;
  readOnly: boolean;
}

const heldBy = ({ name, mounts }: DeploySpec, sources: readonly string[]): Held[] =>
  mounts.map(({ readOnly = false }, index) => ({ by: name, path: sources[index], readOnly }));

/** What a container mounts, by the paths that the engine was given. */
function heldByContainer({ Config, HostConfig, Mounts }: Inspected): Held[] {
  const by = `a container of ${Config.Labels?.[DEPLOYMENT]}`;
  // Docker tells both. Where it runs in a machine of its own, the second are that machine's paths.
  const asked = HostConfig.Mounts ?? [];
  const all = asked.length > 0
    ? asked.map(({ Type, Source, ReadOnly }) => ({ Type, Source, ReadOnly: ReadOnly ?? false }))
    : (Mounts ?? []).map(({ Type, Source, RW }) => ({ Type, Source, ReadOnly: !RW }));
  return all.filter(({ Type }) => Type === "bind")
    .map(({ Source = "", ReadOnly }) => ({ by, path: Source, readOnly: ReadOnly }));
}

/** Throws `conflict` where one could put another's source elsewhere: by a link in the place of a folder on its way. */
function refuseNested(own: readonly Held[], theirs: readonly Held[]): void {
  for (const mine of own) {
    for (const other of [...own, ...theirs]) {
      const [inner, outer] = isBelow(mine.path, other.path) ? [mine, other] : [other, mine];
      if (outer.readOnly || !isBelow(inner.path, outer.path)) continue;
      throw new SvcError(
        "conflict",
        `Cannot mount ${mine.path}: ${outer.by} may write to ${outer.path}, and so could replace ` +
          `${inner.path} of ${inner.by}`,
        {
          help:
            "mount the outer folder read-only, or folders that are beside each other; where the " +
            "deployment's own containers are in the way, delete it first",
        },
      );
    }
  }
}

export interface BindsParts {
  /** Specs of all deployments. */
  specs: () => readonly DeploySpec[];
  /** All containers of this server. Throws where they are not known. */
  containers: () => readonly Inspected[];
  policy: () => Promise<BindPolicy>;
}

/** Folders that an apply is about to mount. Nobody else gets what is in their way until they are disposed of. */
export interface HeldSources extends Disposable {
  /** Real paths of the spec's mounts, in their order. */
  sources: readonly string[];
}

/** The host folders of all workloads of a server. */
export class Binds {
  readonly #parts: BindsParts;
  /** By the deployment that is being applied. */
  readonly #applying = new Map<string, readonly Held[]>();

  constructor(parts: BindsParts) {
    this.#parts = parts;
  }

  /**
   * The real paths of the spec's mounts, kept for an apply. Throws `denied`, `not_found`, or `conflict` where a
   * workload that may write to a folder could put the source of another one elsewhere. The caller holds the
   * deployment's lock.
   */
  async hold(spec: DeploySpec): Promise<HeldSources> {
    const release = () => void this.#applying.delete(spec.name);
    const sources = await this.#check(spec, (own) => this.#applying.set(spec.name, own));
    return { sources, [Symbol.dispose]: release };
  }

  /** Throws what `hold` throws, and `conflict` where the sources are no longer those. */
  async recheck(spec: DeploySpec, sources: readonly string[]): Promise<void> {
    const now = await this.#check(spec);
    const index = now.findIndex((path, index) => path !== sources[index]);
    if (index < 0) return;
    throw new SvcError(
      "conflict",
      `Cannot mount ${spec.mounts[index].source} (mounts[${index}].source): it led to ` +
        `${sources[index]}, and leads to ${now[index]} by now`,
      { help: "deploy again" },
    );
  }

  /** Throws what `hold` throws where the deployment may not mount what its spec and its containers mount. */
  async requireStill(spec: DeploySpec, containers: readonly Inspected[]): Promise<void> {
    const sources = await this.#check(spec);
    const attached = new Set(
      containers.flatMap(({ Config }) => attachedSources(Config.Labels)),
    );
    for (const { path } of containers.flatMap(heldByContainer)) {
      // What the server mounts of its own is no matter of the policy.
      if (attached.has(path)) continue;
      // Else it is of an apply that stopped halfway, or was made before a link on the way was changed.
      if (sources.includes(path)) continue;
      const real = await realSource({ source: path }, "of a container", await this.#parts.policy());
      if (real === path) continue;
      throw new SvcError(
        "denied",
        `Cannot mount ${path} (of a container): it leads to ${real} by now`,
        { help: "deploy again" },
      );
    }
  }

  /** `passed` is called at the moment of the check: nothing comes between. */
  async #check(spec: DeploySpec, passed?: (own: readonly Held[]) => void): Promise<string[]> {
    if (spec.mounts.length === 0) return [];
    const policy = await this.#parts.policy();
    const sources = await Promise.all(
      spec.mounts.map((mount, index) => realSource(mount, `mounts[${index}].source`, policy)),
    );
    const others = await Promise.all(
      this.#parts.specs().filter(({ name }) => name !== spec.name).map(async (other) =>
        heldBy(other, await Promise.all(other.mounts.map((one) => sourceOf(one, policy.paths))))
      ),
    );
    const own = heldBy(spec, sources);
    const containers = this.#parts.containers().map(heldByContainer);
    const applying = [...this.#applying].filter(([name]) => name !== spec.name)
      .map(([, held]) => held);
    refuseNested(own, [...others, ...containers, ...applying].flat());
    passed?.(own);
    return sources;
  }
}
