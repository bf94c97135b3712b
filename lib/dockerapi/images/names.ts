/**
 * Docker's names of images, and where the server's registry keeps them. "app:v1" is repository `app` there. An
 * image of another registry keeps that registry's name as the first part of its repository, with two underscores
 * for the colon of a port: `localhost:5000/app` is `localhost__5000/app`.
 */
import { SvcError } from "../../base/errors.ts";
import { formatReference, isRepositoryName, parseReference } from "../../oci/reference.ts";
import type { Digest } from "../../oci/types.ts";

/** Repository of images that were built without a name. */
export const UNNAMED = "svc-unnamed";

export interface StoredName {
  /** In the server's registry. */
  repository: string;
  /** Absent where there is a digest alone. */
  tag?: string;
  digest?: Digest;
}

const HUB = ["docker.io", "index.docker.io", "registry-1.docker.io"];

const familiar = (repository: string) => repository.replace(/^library\/(?=[^/]+$)/, "");

/**
 * Where an image of that name is kept. `own`: the hosts that mean the server's registry. Throws
 * `reference_invalid`.
 */
export function storedName(text: string, own: readonly string[]): StoredName {
  const { registry, repository, tag, digest } = parseReference(text);
  const rest = {
    ...(digest === undefined || tag !== undefined ? { tag: tag ?? "latest" } : {}),
    ...(digest !== undefined && { digest }),
  };
  if (registry === undefined || HUB.includes(registry)) {
    return { repository: familiar(repository), ...rest };
  }
  if (own.includes(registry)) return { repository, ...rest };
  const kept = `${registry.toLowerCase().replace(":", "__")}/${repository}`;
  if (isRepositoryName(kept)) return { repository: kept, ...rest };
  throw new SvcError(
    "reference_invalid",
    `Cannot keep ${text}: its registry's name is none that a repository can have`,
  );
}

/** Docker's name of a repository: without tag. */
export function shownRepository(repository: string): string {
  const [first, ...rest] = repository.split("/");
  if (rest.length === 0) return repository;
  return [first.replace(/__(?=\d{1,5}$)/, ":"), ...rest].join("/");
}

/** "app:v1", "app@sha256:…". */
export function shownName({ repository, tag, digest }: StoredName): string {
  return formatReference({
    repository: shownRepository(repository),
    ...(tag !== undefined && { tag }),
    ...(digest !== undefined && tag === undefined && { digest }),
  });
}

export interface UpstreamName {
  host: string;
  repository: string;
  tag?: string;
  digest?: Digest;
}

/** Where a name's image is pulled from and pushed to. Names without a registry are docker.io's. */
export function upstreamName(text: string): UpstreamName {
  const { registry = "docker.io", repository, tag, digest } = parseReference(text);
  const hub = HUB.includes(registry);
  return {
    host: hub ? "docker.io" : registry,
    repository: hub && !repository.includes("/") ? `library/${repository}` : repository,
    ...(tag !== undefined && { tag }),
    ...(digest !== undefined && { digest }),
  };
}
