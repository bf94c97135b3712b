/** Where this server's own images are read from and written to, and what refuses that. */
import { SvcError } from "../base/errors.ts";
import { BUILDER, isBuilderRepository } from "../docker/builder_names.ts";
import type { ImageSink, ImageSource, ReadOptions } from "../oci/image.ts";
import type { Reference } from "../oci/reference.ts";
import type { LoadImage } from "../oci/resolver.ts";

/** This server's own images. */
export interface LocalImages {
  source: ImageSource;
  sink: ImageSink;
  /**
   * The images of the deploy backend's engine, by the engine's names. Those of other registries are asked for
   * before the registries are, as the engine's own builds do.
   */
  engine?: ImageSource & {
    /** The engine's name of an image that it has. */
    locate(repository: string, tag: string, options?: ReadOptions): Promise<string | undefined>;
  };
  /** What is here besides the engine's images, and comes first. */
  kept?: ImageSource;
  /** The engine takes the images that are built here; the sink takes none. */
  load?: LoadImage;
}

/** Throws `reference_invalid` for a name of the builder's image: the engine runs what it is with all privileges. */
export function refuseBuilder({ repository }: Reference, text: string): void {
  if (!isBuilderRepository(repository)) return;
  throw new SvcError(
    "reference_invalid",
    `Cannot publish as ${text}: ${BUILDER} is the image of this server's builder`,
    { help: "choose another name" },
  );
}

/** A source that refuses every read. */
export function refusing(refusal: () => SvcError): ImageSource {
  const refuse = () => {
    throw refusal();
  };
  const refuseLater = () => Promise.reject(refusal());
  return {
    resolve: refuseLater,
    stat: refuseLater,
    get: refuseLater,
    tags: refuse,
    referrers: refuse,
  };
}

/** In the place of a sink: images go to the engine as a whole. */
const refuseWrite = () => {
  const why = "it shows the images of the deploy backend's engine, which takes whole images alone";
  return Promise.reject(
    new SvcError("registry_read_only", `Cannot write to this registry: ${why}`),
  );
};
export const READ_ONLY: ImageSink = {
  hasBlob: refuseWrite,
  putBlob: refuseWrite,
  putManifest: refuseWrite,
};
