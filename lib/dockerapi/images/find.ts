/**
 * The image that a container names, on the server. The seam between containers and images: what `docker pull`, `tag`
 * and `build` put into the server's registry is found here by the same name.
 */
import { SvcError } from "../../base/errors.ts";
import { parseReference } from "../../oci/reference.ts";
import type { ImageConfig, Index, Manifest } from "../../oci/types.ts";
import { Registries } from "../../transfer/registries.ts";
import type { DockerApi } from "../api.ts";

export interface FoundImage {
  /** "sha256:…": the digest of its config, as docker has it. */
  id: string;
  /** The name for a deployment's spec. */
  name: string;
  config: ImageConfig;
}

/** The server's registry. */
export function registryOf(api: DockerApi, signal: AbortSignal) {
  const { target, way, credentials } = api.connection;
  const registries = new Registries({
    server: target.server,
    way,
    token: () => credentials.token(),
    env: api.env,
    plainHTTP: [],
    signal,
  });
  return registries.get();
}

/** "docker.io/library/busybox" is busybox here: names without a registry are those of the server. */
export function localName(
  reference: string,
): { repository: string; tag?: string; digest?: string } {
  const { registry, repository, tag, digest } = parseReference(reference);
  const hub = registry === undefined || registry === "docker.io" || registry === "index.docker.io";
  const name = hub ? repository.replace(/^library\//, "") : `${registry}/${repository}`;
  return { repository: name, tag: tag ?? (digest ? undefined : "latest"), digest };
}

const PLATFORM = { x86_64: "amd64", aarch64: "arm64" } as Record<string, string>;

function ofPlatform(index: Index): string | undefined {
  const wanted = PLATFORM[Deno.build.arch];
  const { manifests } = index;
  const own = manifests.find(({ platform }) =>
    platform?.os === "linux" && platform.architecture === wanted
  );
  return (own ?? manifests.find(({ platform }) => platform?.os === "linux") ?? manifests[0])
    ?.digest;
}

/** Undefined where the server's registry has no such image. */
export async function findImage(
  api: DockerApi,
  reference: string,
  signal: AbortSignal,
): Promise<FoundImage | undefined> {
  const { repository, tag, digest } = localName(reference);
  const registry = registryOf(api, signal);
  let top = await registry.resolve(repository, digest ?? tag!, { signal });
  if (!top) return undefined;
  let manifest = JSON.parse(new TextDecoder().decode(top.bytes)) as Manifest & Index;
  if (manifest.manifests) {
    const chosen = ofPlatform(manifest);
    top = chosen ? await registry.resolve(repository, chosen, { signal }) : undefined;
    if (!top) return undefined;
    manifest = JSON.parse(new TextDecoder().decode(top.bytes));
  }
  const blob = await registry.get(repository, manifest.config.digest, { signal });
  if (!blob) return undefined;
  const config = await new Response(blob.stream()).json() as ImageConfig;
  const name = digest ? `${repository}@${digest}` : `${repository}:${tag}`;
  return { id: manifest.config.digest, name, config };
}

/** Throws `not_found` in docker's words, at which its clients pull the image. */
export async function requireImage(
  api: DockerApi,
  reference: string,
  signal: AbortSignal,
): Promise<FoundImage> {
  const found = await findImage(api, reference, signal);
  if (found) return found;
  throw new SvcError("not_found", `No such image: ${reference}`);
}
