/** The mirror of SVC_REGISTRY_MIRROR: upstreams by their hosts, composed over the local registry. */
import { SvcError } from "../base/errors.ts";
import { type MirrorUpstream, parseRegistryMirror } from "../config/registry_mirror.ts";
import {
  type Mirror,
  type MirrorOptions,
  openMirror,
  type Upstream,
} from "../registry/mirror/mirror.ts";
import type { Remotes } from "./outside.ts";

export interface ServerMirrorOptions extends Omit<MirrorOptions, "upstreams"> {
  /** The text of SVC_REGISTRY_MIRROR. */
  upstreams: string;
  /** True for registry hosts that are this server. */
  isOwn: (host: string) => boolean;
  remote: Remotes;
}

/** Attempts per request. Few: clients try again themselves, and a stored copy is served meanwhile. */
const ATTEMPTS = 3;
/** The names of docker.io's registry. */
const DOCKER = new Set(["docker.io", "index.docker.io", "registry-1.docker.io"]);

/** Throws `config_invalid` where an upstream is this server itself. */
export async function openServerMirror(options: ServerMirrorOptions): Promise<Mirror> {
  const { upstreams, isOwn, remote, ...rest } = options;
  const source = "SVC_REGISTRY_MIRROR";
  const connect = ({ prefix, host: written, scheme }: MirrorUpstream): Upstream => {
    if (isOwn(written)) {
      throw new SvcError(
        "config_invalid",
        `Cannot use ${source}: ${written} is this server itself`,
        { help: "name the registry whose content is to be mirrored" },
      );
    }
    const host = DOCKER.has(written) ? "docker.io" : written;
    return {
      ...(prefix !== undefined && { prefix }),
      host,
      source: remote(host, {
        attempts: ATTEMPTS,
        ...(scheme && { plainHTTP: scheme === "http" }),
      }),
    };
  };
  return await openMirror({
    ...rest,
    upstreams: parseRegistryMirror(upstreams, source).map(connect),
  });
}
