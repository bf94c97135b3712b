/**
 * A pull-through mirror: a content store that looks for missing content in other registries. Pushes go to the
 * store, and pushed content wins. With the cache on, content from an upstream is stored like pushed content; a
 * manifest is stored before its blobs, which are fetched when somebody asks for them.
 */
import { removeTree } from "../../base/fs.ts";
import type { Digest } from "../../oci/types.ts";
import type { RegistryStore } from "../view.ts";
import { MirrorBlobs } from "./blobs.ts";
import { MirrorListings } from "./listings.ts";
import { MirrorManifests } from "./manifests.ts";
import { type MirrorContext, type MirrorOptions, PUSH_MS } from "./options.ts";
import { Recent } from "./recent.ts";
import { Upstreams } from "./upstreams.ts";

export type { MirrorOptions } from "./options.ts";
export type { Upstream } from "./upstreams.ts";

/** Disposing of the mirror ends its fetches; the store stays the caller's. */
export interface Mirror extends RegistryStore, AsyncDisposable {
  /** Copies a blob or a manifest into the store; false where no upstream gives it. */
  refetch(repository: string, digest: Digest, signal: AbortSignal): Promise<boolean>;
}

function contextOf(options: MirrorOptions, life: AbortSignal): MirrorContext {
  const { pauseMs = 5_000, freshMs = 30_000, revalidateMs = 5_000, log } = options;
  const { now = () => performance.now() } = options;
  const upstreams = new Upstreams(options.upstreams, { pauseMs, log, now });
  const pushing = new Recent<true>(now);
  return { ...options, pauseMs, freshMs, revalidateMs, now, life, upstreams, pushing };
}

/** Removes what an earlier process left in `options.spool`. */
export async function openMirror(options: MirrorOptions): Promise<Mirror> {
  const { store, cache, spool } = options;
  const end = new AbortController();
  const context = contextOf(options, end.signal);
  await removeTree(spool);
  const blobs = new MirrorBlobs(context);
  const manifests = new MirrorManifests(context, blobs);
  const listings = new MirrorListings(context);
  return {
    resolve: (repository, reference, call) => manifests.resolve(repository, reference, call),
    publish: (...call) => manifests.publish(...call),
    putManifest: async (repository, mediaType, bytes, tags, call) =>
      (await manifests.publish(repository, mediaType, bytes, { ...call, tags })).descriptor,
    deleteManifest: (...call) => manifests.delete(...call),

    stat: (repository, digest, call) => blobs.stat(repository, digest, call),
    get: (repository, digest, call) => blobs.get(repository, digest, call),
    ...(store.signedUrl && { signedUrl: (digest, call) => store.signedUrl!(digest, call) }),
    // For writers, which leave out what is reported here: so only what the store has counts.
    hasBlob: (repository, digest, call) => store.hasBlob(repository, digest, call),
    mountBlob: async (repository, digest, from, call) =>
      await store.mountBlob?.(repository, digest, from, call) ?? false,
    putBlob: (repository, descriptor, body, call) =>
      store.putBlob(repository, descriptor, body, call),
    adoptBlob: async (repository, descriptor, path, call) =>
      await store.adoptBlob?.(repository, descriptor, path, call) ?? false,
    deleteBlob: (repository, digest, call) => store.deleteBlob(repository, digest, call),
    startUpload: (repository, call) => {
      context.pushing.set(repository, true, PUSH_MS);
      return store.startUpload(repository, call);
    },
    openUpload: (repository, id, call) => store.openUpload(repository, id, call),

    tags: (repository, call) => listings.tags(repository, call),
    referrers: (repository, digest, call) => listings.referrers(repository, digest, call),
    hasRepository: (repository, call) => listings.hasRepository(repository, call),
    repositories: (call) => store.repositories(call),

    refetch: async (repository, digest, signal) =>
      cache && await manifests.complete(repository, digest, signal),

    async [Symbol.asyncDispose]() {
      end.abort(new DOMException("the server is stopping", "AbortError"));
      await Promise.all([blobs.idle(), manifests.idle()]);
    },
  };
}
