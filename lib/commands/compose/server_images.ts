/** What the server's registry tells of images. */
import type { Connection } from "../../client/connection.ts";
import { readImageConfig } from "../../oci/image_config.ts";
import { parseReference } from "../../oci/reference.ts";
import { parseManifest } from "../../oci/manifest.ts";
import type { ContainerConfig, ImageConfig } from "../../oci/types.ts";
import type { Registries } from "../../transfer/registries.ts";
import type { RemoteRegistry } from "../../remote/registry.ts";
import type { Client } from "../../client/client.ts";
import type { ProjectInvocation } from "./open_project.ts";

/** Bytes of an image's configuration, at most. */
const LONGEST_CONFIG = 8 << 20;

/** The server's registry, and others. */
export async function registriesOf(
  { client, credentials, way }: Connection,
  { env, io: { signal } }: Pick<ProjectInvocation, "env" | "io">,
): Promise<Registries> {
  const { Registries } = await import("../../transfer/registries.ts");
  return new Registries({
    ...{ server: client.server, way, env, plainHTTP: [], signal },
    token: () => credentials.token(),
  });
}

export const serverRegistry = async (...of: Parameters<typeof registriesOf>) =>
  (await registriesOf(...of)).get();

/** Names of images as files have them: those of the server's registry run by a name with its host. */
export async function imageNames(client: Client): Promise<(image: string) => string> {
  const { registry: own } = await client.json("GET /info");
  return (image) => own && image.startsWith(`${own}/`) ? image.slice(own.length + 1) : image;
}

/** The name under which an image without a registry in its name is fetched, as docker has it; undefined: it has one. */
export function hubName(image: string): string | undefined {
  const { registry, repository, tag, digest } = parseReference(image);
  if (registry !== undefined) return undefined;
  const rest = `${repository}${tag ? `:${tag}` : ""}${digest ? `@${digest}` : ""}`;
  return `docker.io/${repository.includes("/") ? rest : `library/${rest}`}`;
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
  const found = await readImage(registry, repository, digest || own || tag || "latest", signal);
  if (!found) return undefined;
  const { config: { os, architecture, variant, created }, size } = found;
  return {
    platform: [os, architecture, variant].filter(Boolean).join("/"),
    size,
    ...(created !== undefined && { created }),
  };
}

/** The configuration of an image, and its size; of one for several platforms the first. */
async function readImage(
  registry: RemoteRegistry,
  repository: string,
  reference: string,
  signal: AbortSignal,
): Promise<{ config: ImageConfig; size: number } | undefined> {
  const found = await registry.resolve(repository, reference, { signal });
  if (!found) return undefined;
  const manifest = parseManifest(found.bytes, found.descriptor.mediaType);
  if (manifest.kind === "index") {
    const [first] = manifest.manifests;
    return first && await readImage(registry, repository, first.digest, signal);
  }
  const { config, layers } = manifest.document;
  if (config.size > LONGEST_CONFIG) return undefined;
  const blob = await registry.get(repository, config.digest, { signal });
  const read = blob && readImageConfig(await new Response(blob.stream()).text());
  return read && {
    config: read,
    size: layers.reduce((sum, { size }) => sum + size, config.size),
  };
}

/** What an image says of its containers; undefined: the registry has none of that name. */
export async function imageConfig(
  registries: Registries,
  image: string,
  signal: AbortSignal,
): Promise<ContainerConfig | undefined> {
  const { registry: host, repository, tag, digest } = parseReference(image);
  const registry = registries.get(host);
  const found = await readImage(registry, repository, digest ?? tag ?? "latest", signal);
  return found && (found.config.config ?? {});
}
