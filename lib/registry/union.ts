/**
 * A registry's own store with a view behind it (SPEC "Registry view rules" 4): the store is asked first, the
 * view for what the store lacks. Pushes and deletes go to the store and never change the view.
 */
import type { Digest } from "../oci/types.ts";
import { publishComplete } from "./complete.ts";
import { merged } from "./merged.ts";
import type { RegistryReader, RegistryStore, RegistryView, RegistryWriter } from "./view.ts";

const itself = (name: string): string => name;

/** Two readers as one; for content that both have, the first counts. */
export function unionReader(first: RegistryReader, second: RegistryReader): RegistryReader {
  return {
    resolve: async (...call) => await first.resolve(...call) ?? await second.resolve(...call),
    stat: async (...call) => await first.stat(...call) ?? await second.stat(...call),
    get: async (...call) => await first.get(...call) ?? await second.get(...call),
    tags: (...call) => merged(first.tags(...call), second.tags(...call), itself),
    referrers: (...call) =>
      merged(first.referrers(...call), second.referrers(...call), ({ digest }) => digest),
    hasRepository: async (...call) =>
      await first.hasRepository(...call) || await second.hasRepository(...call),
    repositories: (call) => merged(first.repositories(call), second.repositories(call), itself),
    ...(first.signedUrl && { signedUrl: (...call) => first.signedUrl!(...call) }),
  };
}

/** The union of both. References that a push leaves out because the view has them are copied into the store. */
export function unionView(own: RegistryStore, view: RegistryReader): RegistryView {
  /** False where the view does not have the content. */
  const bring = async (
    repository: string,
    digest: Digest,
    signal: AbortSignal | undefined,
  ): Promise<boolean> => {
    const manifest = await view.resolve(repository, digest, { signal });
    if (manifest) {
      const { descriptor: { mediaType }, bytes } = manifest;
      await publish(repository, mediaType, bytes, { digest, signal });
      return true;
    }
    const body = await view.get(repository, digest, { signal });
    if (!body) return false;
    await own.putBlob(repository, { digest, size: body.size }, body.stream(), { signal });
    return true;
  };
  const publish: RegistryWriter["publish"] = (repository, mediaType, bytes, options = {}) =>
    publishComplete(
      () => own.publish(repository, mediaType, bytes, options),
      (digest) => bring(repository, digest, options.signal),
    );
  return {
    reader: unionReader(own, view),
    writer: {
      publish,
      startUpload: (...call) => own.startUpload(...call),
      openUpload: (...call) => own.openUpload(...call),
      mountBlob: async (...call) => await own.mountBlob?.(...call) ?? false,
      deleteBlob: (...call) => own.deleteBlob(...call),
      deleteManifest: (...call) => own.deleteManifest(...call),
    },
  };
}
