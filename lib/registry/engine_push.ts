/** Pushes to a registry whose images are a container engine's (SPEC "Registry view rules" 2). */
import { SvcError } from "../base/errors.ts";
import type { ImageSink, ReadOptions } from "../oci/image.ts";
import { isTag } from "../oci/reference.ts";
import type { Digest } from "../oci/types.ts";
import type { EngineWriter } from "../store/engine_writer.ts";
import { type EngineView, registryIn, short } from "./engine_view.ts";
import type { RegistryWriter } from "./view.ts";

/** Throws `denied`: a push would change what a name of another registry means to builds and deployments. */
function refuseForeign(repository: string): void {
  const registry = registryIn(repository);
  if (registry === undefined) return;
  throw new SvcError(
    "denied",
    `Cannot push to ${repository}: names below ${registry}/ show images of that registry`,
    { help: "push under a name that does not begin with a registry's" },
  );
}

/** `writer` throws where the engine cannot be used now. */
export function enginePush(
  view: Pick<EngineView, "home" | "named">,
  writer: () => Promise<EngineWriter>,
): RegistryWriter & ImageSink {
  const publish: RegistryWriter["publish"] = async (repository, mediaType, bytes, options) => {
    refuseForeign(repository);
    const name = view.home(repository);
    return await (await writer()).publish(short(repository), mediaType, bytes, {
      ...options,
      name,
    });
  };
  const hasBlob = async (repository: string, digest: Digest, options?: ReadOptions) =>
    await (await writer()).hold(short(repository), digest, options) !== undefined;
  return {
    async startUpload(repository, options) {
      refuseForeign(repository);
      return await (await writer()).startUpload(repository, options);
    },
    openUpload: async (...call) => await (await writer()).openUpload(...call),
    hasBlob,
    mountBlob: async (repository, digest, _from, options) => {
      refuseForeign(repository);
      return await hasBlob(repository, digest, options);
    },
    putBlob: async (repository, ...call) =>
      await (await writer()).putBlob(short(repository), ...call),
    publish,
    putManifest: async (repository, mediaType, bytes, tags, options) =>
      (await publish(repository, mediaType, bytes, { ...options, tags })).descriptor,
    deleteBlob: async (repository, ...call) =>
      await (await writer()).deleteBlob(short(repository), ...call),
    async deleteManifest(repository, reference, options) {
      const engine = await writer();
      let gone = false;
      const tag = isTag(reference) ? reference : undefined;
      for (const { name, pushed } of await view.named(repository, options, tag)) {
        // Where it was pushed here, another program's image of the same name may show from now on.
        if (gone && !pushed) break;
        gone = await engine.deleteManifest(name, reference, options) || gone;
      }
      return gone;
    },
  };
}
