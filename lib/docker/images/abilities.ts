/** The abilities `images` and `load` of a deploy backend whose engine has the Docker Engine API. */
import type { Logger } from "../../base/log.ts";
import type { LoadImage } from "../../oci/resolver.ts";
import type { DockerClient } from "../client.ts";
import { engineApi } from "./engine.ts";
import { ExportCache } from "./export_cache.ts";
import { ImageLoader } from "./load.ts";
import { EngineImages, type EngineReader } from "./reader.ts";

export interface ImageAbilities extends AsyncDisposable {
  images: {
    reader: EngineReader;
    repositories: EngineReader["repositories"];
    ready(options?: { signal?: AbortSignal }): Promise<void>;
  };
  load: (image: Parameters<LoadImage>[0], options?: { signal?: AbortSignal }) => Promise<void>;
}

/** `folder` is for exported images; nobody else writes there. Disposing ends the exports that are under way. */
export function imageAbilities(
  client: DockerClient,
  { folder, log }: { folder: string; log: Logger },
): ImageAbilities {
  const api = engineApi(client);
  const cache = new ExportCache({
    folder,
    export: (id, signal) => api.export(id, signal),
    log,
  });
  const reader = new EngineImages(api, cache);
  const loader = new ImageLoader(api);
  return {
    images: {
      reader,
      repositories: (options) => reader.repositories(options),
      ready: ({ signal } = {}) =>
        client.run({
          path: "/_ping",
          unversioned: true,
          attempted: `Cannot read the images of ${client.words.product}`,
          signal,
        }),
    },
    load: (image, { signal } = {}) => loader.load(image, signal),
    [Symbol.asyncDispose]: () => cache[Symbol.asyncDispose](),
  };
}
