/** What the server's registry tells of images. */
import { parseReference } from "../../oci/reference.ts";
import { parseManifest } from "../../oci/manifest.ts";
import type { RemoteRegistry } from "../../remote/registry.ts";
import type { Connection } from "../connect.ts";
import type { ProjectInvocation } from "./open_project.ts";

/** Bytes of an image's configuration, at most. */
const LONGEST_CONFIG = 8 << 20;

export async function serverRegistry(
  { client, credentials, way }: Connection,
  { env, io }: Pick<ProjectInvocation, "env" | "io">,
): Promise<RemoteRegistry> {
  const { Registries } = await import("../../transfer/registries.ts");
  const registries = new Registries({
    server: client.server,
    way,
    token: () => credentials.token(),
    env,
    plainHTTP: [],
    signal: io.signal,
  });
  return registries.get();
}

export interface ImageFacts {
  /** "linux/amd64". */
  platform: string;
  /** Bytes of its layers and its configuration, as the registry keeps them. */
  size: number;
  /** RFC 3339; absent: it does not say. */
  created?: string;
}

/** Undefined: the server's registry has no such image, or the image is another registry's. */
export async function imageFacts(
  registry: RemoteRegistry,
  image: string,
  { digest, signal }: { digest?: string; signal: AbortSignal },
): Promise<ImageFacts | undefined> {
  const { registry: host, repository, tag, digest: own } = parseReference(image);
  if (host !== undefined) return undefined;
  const reference = digest || own || tag || "latest";
  const found = await registry.resolve(repository, reference, { signal });
  if (!found) return undefined;
  const manifest = parseManifest(found.bytes, found.descriptor.mediaType);
  if (manifest.kind === "index") return undefined;
  const { config, layers } = manifest.document;
  if (config.size > LONGEST_CONFIG) return undefined;
  const blob = await registry.get(repository, config.digest, { signal });
  if (!blob) return undefined;
  const said = await new Response(blob.stream()).json();
  return {
    platform: [said.os, said.architecture, said.variant].filter(Boolean).join("/"),
    size: layers.reduce((sum, { size }) => sum + size, config.size),
    ...(typeof said.created === "string" && { created: said.created }),
  };
}
