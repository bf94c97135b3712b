/** The image that a container names, on the server. */
import type { ImageConfig } from "../../oci/types.ts";
import { formatReference } from "../../oci/reference.ts";
import type { DockerApi } from "../api.ts";
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
): Promise<FoundImage> {
  const { store, pullHost } = await imagesOf(api);
  const found = await store.find(reference, signal);
  if (!found) throw noSuchImage(reference);
  const { tag, digest = found.root } = found.names[0] ?? {};
  const name = formatReference({
    registry: pullHost,
    repository: found.repository,
    ...tag === undefined ? { digest } : { tag },
  });
  return { id: found.id, name, config: found.config };
}
