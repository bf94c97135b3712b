/**
 * This server's own container, where it runs in one of the engine that it speaks to: the engine knows how its paths
 * appear on the host.
 */
import { SvcError } from "../base/errors.ts";
import { inContainer, inFirstNetwork, ownContainerIds } from "../sys/contained.ts";
import type { DockerClient } from "./client.ts";
import { daemonStatus } from "./errors.ts";

/** A folder or a file of the host, and where this server sees it. */
export interface PathPair {
  here: string;
  host: string;
}

export interface OwnContainer {
  id: string;
  /** True where it shares the host's network namespace. */
  hostNetwork: boolean;
  paths: PathPair[];
}

interface Inspected {
  Id: string;
  State?: { Running?: boolean };
  HostConfig?: { NetworkMode?: string };
  Mounts?: { Type?: string; Source?: string; Destination?: string }[] | null;
}

/** The container of this process; undefined where it is in none, or in one that the engine does not have. */
async function ownContainer(
  engine: DockerClient,
): Promise<OwnContainer | undefined> {
  for (const id of await ownContainerIds()) {
    try {
      const found = await engine.json<Inspected>({
        path: `/containers/${id}/json`,
        attempted: "Cannot look at this server's own container",
      });
      if (!found.State?.Running) continue;
      return {
        id,
        hostNetwork: found.HostConfig?.NetworkMode === "host",
        paths: (found.Mounts ?? []).flatMap(({ Type, Source, Destination }) =>
          // A tmpfs has no place on the host.
          Type !== "tmpfs" && Source && Destination ? [{ here: Destination, host: Source }] : []
        ),
      };
    } catch (error) {
      if (daemonStatus(error) !== 404) throw error;
    }
  }
  return undefined;
}

/** Pairs `container-path=host-path`, as SVC_HOST_PATH_MAP has them. */
export function pathPairsOf(pairs: readonly string[]): PathPair[] {
  return pairs.map((pair) => {
    const [here, host] = pair.split("=");
    return { here, host };
  });
}

const trimmed = (path: string) => path.replace(/\/+$/, "") || "/";

/** The rest of `path` below `folder`, with its slash; undefined where it is not below it. */
function restBelow(path: string, folder: string): string | undefined {
  if (folder === "/") return path === "/" ? "" : path;
  if (path === folder) return "";
  return path.startsWith(`${folder}/`) ? path.slice(folder.length) : undefined;
}

const join = (folder: string, rest: string) => folder === "/" ? rest || "/" : folder + rest;

/** How this server's paths appear on the engine's host, and the other way round. */
export class HostPaths {
  readonly #pairs: readonly PathPair[];
  readonly #contained: boolean;

  /**
   * `declared` (SVC_HOST_PATH_MAP) overrides what was `found` for the same path. `contained`: what no pair names is
   * in the server's container alone.
   */
  constructor(declared: readonly PathPair[], found: readonly PathPair[], contained: boolean) {
    const pairs = new Map<string, string>();
    for (const { here, host } of [...found, ...declared]) pairs.set(trimmed(here), trimmed(host));
    this.#pairs = [...pairs].map(([here, host]) => ({ here, host }));
    this.#contained = contained;
  }

  /**
   * The path on the engine's host. `path` is absolute, with its links resolved. Throws `prerequisite_missing` for
   * one that is in the server's container alone.
   */
  toHost(path: string): string {
    const host = this.#nearest(path);
    if (host !== undefined) return host;
    throw new SvcError(
      "prerequisite_missing",
      `Cannot give ${path} to the container engine: it is inside this server's own container, and not on the ` +
        "engine's host",
      {
        help: "mount a folder of the host there, or tell with SVC_HOST_PATH_MAP where it is there",
      },
    );
  }

  /** Where this server sees a path of the host; undefined where it does not. */
  toServer(path: string): string | undefined {
    const found = this.#longest(path, "host");
    const here = found ? join(found.pair.here, found.rest) : this.#contained ? undefined : path;
    // Another mount may hide it.
    return here !== undefined && this.#nearest(here) === path ? here : undefined;
  }

  /** The server's paths for what it sees of a folder of the host: the folder, and what is mounted from below it. */
  seenOf(folder: string): string[] {
    const whole = this.toServer(folder);
    const parts = this.#pairs.filter(({ host }) => restBelow(host, folder) !== undefined)
      .map(({ here }) => here);
    return [...new Set([...whole === undefined ? [] : [whole], ...parts])];
  }

  #nearest(here: string): string | undefined {
    const found = this.#longest(here, "here");
    if (found) return join(found.pair.host, found.rest);
    return this.#contained ? undefined : here;
  }

  /** The pair whose folder is nearest to the path: what is mounted there hides the outer ones. */
  #longest(path: string, side: keyof PathPair) {
    let best: { pair: PathPair; rest: string } | undefined;
    for (const pair of this.#pairs) {
      const rest = restBelow(path, pair[side]);
      if (rest !== undefined && (!best || rest.length < best.rest.length)) best = { pair, rest };
    }
    return best;
  }
}

/** What a server tells of its place, where it knows better than the engine. */
export interface PlaceSettings {
  /** SVC_HOST_PATH_MAP. */
  hostPathMap?: readonly string[];
  /** SVC_HOST_NETWORK. */
  hostNetwork?: string;
}

/** Where this server is, as seen from the engine's host. */
export interface ServerPlace {
  paths: HostPaths;
  hostNetwork: boolean;
  /** Its own container, where the engine has it. */
  container?: string;
}

/** Finds out where this server is. Throws what the engine's client throws. */
export async function serverPlace(
  engine: DockerClient,
  { hostPathMap = [], hostNetwork }: PlaceSettings,
): Promise<ServerPlace> {
  const own = await ownContainer(engine);
  const contained = own !== undefined || await inContainer();
  return {
    paths: new HostPaths(pathPairsOf(hostPathMap), own?.paths ?? [], contained),
    hostNetwork: hostNetwork !== undefined
      ? hostNetwork === "1"
      : own?.hostNetwork ?? (!contained || await inFirstNetwork()),
    ...own && { container: own.id },
  };
}
