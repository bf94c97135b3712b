/** The content store over any object store: puts its parts together. */
import type { Logger } from "../base/log.ts";
import type { Digest } from "../oci/types.ts";
import { BlobPlaces } from "./blob_places.ts";
import { Blobs } from "./blobs.ts";
import type { ContentStore } from "./content_store.ts";
import { Damage } from "./damage.ts";
import type { Guard } from "./gc/guard.ts";
import { LocalGuard } from "./gc/local_guard.ts";
import { SharedGuard } from "./gc/shared_guard.ts";
import { manifestKey } from "./keys.ts";
import { Manifests } from "./manifests.ts";
import type { CallOptions, ObjectStore } from "./object_store.ts";
import { createUpkeep } from "./upkeep.ts";
import { Uploads } from "./uploads.ts";

export interface ContentStoreOptions {
  log: Logger;
  /** Milliseconds without activity after which a push counts as given up; default one hour. */
  idleMs?: number;
  /** Shared store only: milliseconds to wait for a removal by another process. */
  patienceMs?: number;
  /** Shared store only: a publication's claim without a beat for so many milliseconds counts as a dead process's. */
  aliveMs?: number;
  /** Shared store only: a clock that never jumps, in milliseconds; default the process's. */
  now?: () => number;
}

/** Resolves manifests. A manifest that a client has probed by its digest is kept for a while. */
function probing(
  manifests: Manifests,
  guard: Guard,
): ContentStore["resolve"] {
  return async (repository, reference, call = {}) => {
    const found = await manifests.resolve(repository, reference, call);
    // A client that probes by digest may be about to push an index that names the manifest.
    if (!found || !call.probe || reference !== found.descriptor.digest) return found;
    const key = manifestKey(repository, reference);
    if (!await guard.lease(repository, key, call)) return found;
    if (await manifests.has(repository, reference, call)) return found;
    guard.release(repository, [key]);
    return undefined;
  };
}

/** Owns `objects`: disposing of the content store disposes of it. */
export function createContentStore(
  objects: ObjectStore,
  options: ContentStoreOptions,
): ContentStore {
  const { log } = options;
  const damage = new Damage(objects, log);
  const places = new BlobPlaces(objects, damage);
  const guard: Guard = objects.exclusive
    ? new LocalGuard(options.idleMs)
    : new SharedGuard(objects, places, options);
  const manifests = new Manifests(objects, places, guard);
  const uploads = new Uploads(objects, damage);
  const blobs = new Blobs({ objects, places, damage, guard, manifests, uploads, log });
  const hasBlob = async (repository: string, digest: Digest, call?: CallOptions) =>
    await blobs.look(repository, digest, call) !== undefined;
  return {
    stat: (repository, digest, call) => blobs.stat(repository, digest, call),
    hasBlob,
    get: (_repository, digest, call) => blobs.get(digest, call),
    ...(objects.signedUrl && {
      async signedUrl(digest: Digest, call: CallOptions & { seconds: number }) {
        const found = await places.stat(digest, call);
        return found && await objects.signedUrl!(found.key, call);
      },
    }),
    mountBlob: (repository, digest, _from, call) => hasBlob(repository, digest, call),
    putBlob: (repository, wanted, body, call) => blobs.put(repository, wanted, body, call),
    ...(objects.adopt && { adoptBlob: blobs.adopt.bind(blobs) }),
    deleteBlob: (_repository, digest, call) => blobs.delete(digest, call),

    startUpload: (repository, call) => blobs.start(repository, call),
    openUpload: (repository, id, call) => blobs.open(repository, id, call),
    expireUploads: (idleMs, call) => uploads.expire(idleMs, call),

    resolve: probing(manifests, guard),
    publish: (repository, mediaType, bytes, call) =>
      manifests.publish(repository, mediaType, bytes, call),
    putManifest: async (repository, mediaType, bytes, tags, call) =>
      (await manifests.publish(repository, mediaType, bytes, { ...call, tags })).descriptor,
    deleteManifest: (repository, reference, call) => manifests.delete(repository, reference, call),
    tags: (repository, call) => manifests.tags(repository, call),
    referrers: (repository, digest, call) => manifests.referrers(repository, digest, call),
    hasRepository: (repository, call) => manifests.hasRepository(repository, call),
    repositories: (call) => manifests.repositories(call),
    upkeep: createUpkeep({ objects, places, manifests, guard, uploads }),

    async [Symbol.asyncDispose]() {
      await uploads.close();
      await guard.close();
      await objects[Symbol.asyncDispose]();
    },
  };
}
