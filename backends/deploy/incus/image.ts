/** How the daemon gets an image: by a reference that its own skopeo asks a registry for. */
import { SvcError } from "../../../lib/base/errors.ts";
import { LayerProofs } from "../../../lib/docker/images/layer_proofs.ts";
import { parseReference } from "../../../lib/oci/reference.ts";
import type { ImageResolver } from "../../../lib/oci/resolver.ts";
import { lostVariables } from "./entrypoint.ts";
import type { EngineImage, FindOptions } from "../shared/engine_api/images.ts";

const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\])(:\d+)?$/;

/** An image's registry, and its name in it by its digest. */
interface Remote {
  registry: string;
  alias: string;
}

function remoteOf(name: string, digest: string): Remote {
  const { registry, repository } = parseReference(name);
  if (registry) return { registry, alias: `${repository}@${digest}` };
  throw new SvcError("unsupported", `Cannot deploy ${name}: the daemon takes images by registry`, {
    help: "name the registry in front of the repository: registry.example.org/app:v1",
  });
}

/** Finds images where svc's resolver does. `maxUnpackedBytes`: see {@linkcode LayerProofs}. */
export function imageFinder(maxUnpackedBytes?: number) {
  const proofs = new LayerProofs({ maxUnpackedBytes });
  return async (
    name: string,
    images: ImageResolver,
    { onProgress, signal }: FindOptions,
  ): Promise<EngineImage> => {
    onProgress(`resolving ${name}`);
    const found = await images.resolve(name, { signal });
    const { digest } = found.descriptor;
    remoteOf(found.name, digest);
    if (found.apart) {
      // Incus knows an image by its layers, and does not read those of one that it has.
      onProgress(`checking the layers of ${found.name}`);
      await proofs.require(found, signal);
    }
    // Incus takes no label of an image.
    const config = found.config.config ?? {};
    for (const variable of lostVariables(config.Env ?? [])) {
      onProgress(
        `leaving out ${JSON.stringify(variable)} of the image: its value has several lines`,
      );
    }
    return { id: digest, name: found.name, digest, labels: [], config };
  };
}

/** The registry is asked over plain HTTP: it is named, or is on the daemon's own host. */
const isPlain = (registry: string, insecure: readonly string[]) =>
  insecure.includes(registry) || LOOPBACK.test(registry);

/** The source of a new instance. */
export function sourceOf(
  { name, digest }: Pick<EngineImage, "name" | "digest">,
  insecure: readonly string[],
): Record<string, string> {
  const { registry, alias } = remoteOf(name, digest);
  const scheme = isPlain(registry, insecure) ? "http" : "https";
  return { type: "image", mode: "pull", protocol: "oci", server: `${scheme}://${registry}`, alias };
}

/** What the daemon's words of a failed pull mean, and what to do. Undefined: they are not about that. */
export function pullFailure(
  error: unknown,
  attempted: string,
  image: string,
  insecure: readonly string[],
): SvcError | undefined {
  if (!(error instanceof SvcError)) return undefined;
  const words = error.message.slice(error.message.indexOf(": ") + 2);
  const tool = /(?:requires "|exec: ")(skopeo|umoci)"/.exec(words)?.[1];
  if (tool) {
    return new SvcError(
      "prerequisite_missing",
      `${attempted}: the daemon's host has no ${tool}, which Incus runs OCI images with`,
      { cause: error, help: `install ${tool} there, where the daemon finds it on its PATH` },
    );
  }
  const { registry = "" } = parseReference(image);
  if (/gave HTTP response to HTTPS client|first record does not look like a TLS/.test(words)) {
    const named = isPlain(registry, insecure)
      ? ""
      : `name ${registry} in SVC_INCUS_INSECURE_REGISTRIES, and `;
    return new SvcError(
      "prerequisite_missing",
      `${attempted}: registry ${registry} speaks plain HTTP, and the daemon's host does not allow that`,
      {
        cause: error,
        help: `${named}write this to /etc/containers/registries.conf.d/svc.conf on the daemon's ` +
          `host: [[registry]] location = "${registry}" insecure = true (each on a line of its own)`,
      },
    );
  }
  if (/manifest unknown|name unknown/i.test(words)) {
    return new SvcError("manifest_unknown", `${attempted}: ${words}`, { cause: error });
  }
  return undefined;
}
