/** The image that a container names, on the server. */
import type { ImageConfig, Platform } from "../../oci/types.ts";
import { formatReference } from "../../oci/reference.ts";
import { formatPlatform, platformMatches } from "../../oci/platform.ts";
import type { DockerApi } from "../api.ts";
import { notFound } from "../errors.ts";
import { imagesOf } from "./access.ts";
import { noSuchImage } from "./store.ts";

export interface FoundImage {
  /** "sha256:…": the digest of its config, as docker has it. */
  id: string;
  /** The name for a deployment's spec: of the server's registry, whatever the client called it. */
  name: string;
  config: ImageConfig;
}

/** Throws `not_found` in docker's words, at which its clients pull the image. */
export async function requireImage(
  api: DockerApi,
  reference: string,
  signal: AbortSignal,
  platform?: Platform,
): Promise<FoundImage> {
  const { store, pullHost } = await imagesOf(api);
  const found = await store.find(reference, signal);
  if (!found) throw noSuchImage(reference);
  if (platform && !platformMatches(found.config, platform)) {
    throw notFound(
      `image with reference ${reference} was found but its platform (${
        formatPlatform(found.config)
      }) does ` +
        `not match the specified platform (${formatPlatform(platform)})`,
    );
  }
  const { tag, digest = found.root } = found.names[0] ?? {};
  const name = formatReference({
    registry: pullHost,
    repository: found.repository,
    ...tag === undefined ? { digest } : { tag },
  });
  return { id: found.id, name, config: found.config };
}
