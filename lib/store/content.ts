/**
 * The content store over any object store. Blobs are shared by all repositories: what one pushed, all may
 * mount or read by digest (a digest is not guessed, and svc's policies are not per repository). A blob
 * therefore goes only when no manifest of any repository refers to it.
 */
import { SvcError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { parseDigest, verified } from "../oci/digest.ts";
import type { BlobBody, ByteRange } from "../oci/image.ts";
import type { Descriptor, Digest } from "../oci/types.ts";
import type { ContentStore, Upload } from "./content_store.ts";
import { BlobPlaces } from "./blob_places.ts";
import { Damage } from "./damage.ts";
import type { Guard } from "./gc/guard.ts";
import { LocalGuard } from "./gc/local_guard.ts";
import { SharedGuard } from "./gc/shared_guard.ts";
import { blobKey, manifestKey, repoKey } from "./keys.ts";
import { Manifests } from "./manifests.ts";
import type { CallOptions, ObjectStore } from "./object_store.ts";
import { createUpkeep } from "./upkeep.ts";
import { Uploads } from "./uploads.ts";

export interface ContentStoreOptions {
  log: Logger;
  /** A push that does nothing for so long is taken as given up; default one hour. */
  idleMs?: number;
  /** Of a shared store: how long another process's removal is waited for. */
  patienceMs?: number;
  /** Of a shared store: a publication's claim without a sign of life for so long is a dead process's. */
  aliveMs?: number;
  /** Of a shared store: milliseconds of a clock that never jumps; default the process's. */
  now?: () => number;
}

/** Bytes of a blob that is stored at one go: an upload of several steps takes longer. */
const SMALL = 64 * 1024;

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

  /** Found and leased: whoever is told so may push a manifest that names it. */
  const look = async (repository: string, digest: Digest, call: CallOptions = {}) => {
    const key = blobKey(digest);
    // A claim in a shared store costs a write: not for what is not there.
    const before = guard.shared ? await places.stat(digest, call) : undefined;
    if (guard.shared && !before) return undefined;
    if (!await guard.lease(repository, key, call)) return before && { size: before.size };
    const info = await places.stat(digest, call).catch((error) => {
      guard.release(repository, [key]);
      throw error;
    });
    if (!info) guard.release(repository, [key]);
    return info && { size: info.size };
  };
  const hasBlob = async (repository: string, digest: Digest, call?: CallOptions) =>
    await look(repository, digest, call) !== undefined;
  /** The same where its size has to be right, too. */
  const holds = async (
    repository: string,
    { digest, size }: Pick<Descriptor, "digest" | "size">,
    call: CallOptions,
  ) => {
    const found = await look(repository, digest, call);
    if (found && found.size !== size) guard.release(repository, [blobKey(digest)]);
    return found?.size === size;
  };

  /** Leases a blob and has it stored under its key; false where `store` could not. */
  const placed = async (
    repository: string,
    digest: Digest,
    call: CallOptions,
    store: (key: string) => Promise<boolean>,
  ): Promise<boolean> => {
    const key = blobKey(digest);
    await guard.lease(repository, key, call);
    try {
      const stored = await store(key);
      if (stored) await guard.secure(digest, call);
      else guard.release(repository, [key]);
      return stored;
    } catch (error) {
      guard.release(repository, [key]);
      throw error;
    }
  };

  /** An upload whose bytes keep its repository's leases young, and whose blob is leased before it is told of. */
  const leased = (upload: Upload): Upload => ({
    id: upload.id,
    repository: upload.repository,
    get offset() {
      return upload.offset;
    },
    async append(body, call) {
      using _busy = guard.busy(upload.repository);
      return await upload.append(body, call);
    },
    async commit(digest, call = {}) {
      const key = blobKey(digest);
      await guard.lease(upload.repository, key, call);
      try {
        const done = await upload.commit(digest, call);
        await guard.secure(digest, call);
        return done;
      } catch (error) {
        guard.release(upload.repository, [key]);
        throw error;
      }
    },
    abort: () => upload.abort(),
  });

  return {
    async stat(repository, digest, call = {}) {
      if (call.probe) return await look(repository, digest, call);
      const info = await places.stat(digest, call);
      return info && { size: info.size };
    },
    hasBlob,

    async get(
      _repository: string,
      digest: Digest,
      call: CallOptions & { range?: ByteRange } = {},
    ): Promise<BlobBody | undefined> {
      const body = await places.get(digest, call);
      if (!body) return undefined;
      const wrong = (message: string) =>
        void damage.tell(body.key, message).catch((error) =>
          log.warn("damage was not noted", { error })
        );
      return {
        size: body.size,
        stream: () =>
          call.range ? body.stream() : verified(body.stream(), digest, body.total, wrong),
        ...(body.file && { file: body.file }),
      };
    },

    ...(objects.signedUrl && {
      async signedUrl(digest: Digest, call: CallOptions & { seconds: number }) {
        const found = await places.stat(digest, call);
        return found && await objects.signedUrl!(found.key, call);
      },
    }),

    mountBlob: (repository: string, digest: Digest, _from: string, call?: CallOptions) =>
      hasBlob(repository, digest, call),

    async putBlob(
      repository: string,
      { digest, size }: Pick<Descriptor, "digest" | "size">,
      body: ReadableStream<Uint8Array>,
      call: CallOptions = {},
    ): Promise<void> {
      const { algorithm } = parseDigest(digest);
      if (await holds(repository, { digest, size }, call)) return await body.cancel();
      if (size <= SMALL) {
        // Throws where it is no name, as an upload does.
        repoKey(repository);
        const given = body.pipeThrough(new TransformStream(), { signal: call.signal });
        const bytes = await new Response(verified(given, digest, size) as BodyInit).bytes();
        await placed(repository, digest, call, async () => {
          await places.put(digest, bytes, { signal: call.signal });
          return true;
        });
        return;
      }
      const upload = leased(await uploads.start(repository, { ...call, algorithm }));
      try {
        const got = await upload.append(body, { ...call, limit: size });
        if (got !== size) {
          throw new SvcError(
            "size_invalid",
            `Cannot store blob ${digest}: expected ${size} bytes, got ${got}`,
          );
        }
        await upload.commit(digest, call);
      } catch (error) {
        await upload.abort().catch((again) => {
          if ((again as { code?: string }).code === "blob_upload_unknown") return;
          log.warn("an upload could not be dropped", { upload: upload.id, error: again });
        });
        throw error;
      }
    },

    ...(objects.adopt && {
      async adoptBlob(
        repository: string,
        { digest, size }: Pick<Descriptor, "digest" | "size">,
        path: string,
        call: CallOptions = {},
      ): Promise<boolean> {
        if (await holds(repository, { digest, size }, call)) return true;
        return await placed(repository, digest, call, async (key) => {
          const adopted = await objects.adopt!(key, path, call);
          if (adopted) await damage.good(key, size);
          return adopted;
        });
      },
    }),

    async deleteBlob(_repository: string, digest: Digest, call: CallOptions = {}) {
      const keys = await places.keys(digest, call);
      if (keys.length === 0) return false;
      return await guard.withdraw(keys, async (begin) => {
        const user = await manifests.userOf(digest, call);
        if (user) {
          throw new SvcError(
            "blob_in_use",
            `Cannot delete blob ${digest}: manifest ${user.digest} of ${user.repository} uses it`,
            { detail: { ...user } },
          );
        }
        begin();
        let there = false;
        for (const key of keys) {
          there = await objects.delete(key, call) || there;
          await damage.gone(key);
        }
        return there;
      }, call);
    },

    startUpload: async (repository, call) => leased(await uploads.start(repository, call)),
    async openUpload(repository, id, call) {
      const upload = await uploads.open(repository, id, call);
      return upload && leased(upload);
    },
    expireUploads: (idleMs, call) => uploads.expire(idleMs, call),

    async resolve(repository, reference, call = {}) {
      const found = await manifests.resolve(repository, reference, call);
      // By digest, a client may be about to push an index that names it.
      if (!found || !call.probe || reference !== found.descriptor.digest) return found;
      const key = manifestKey(repository, reference);
      if (!await guard.lease(repository, key, call)) return found;
      if (await objects.stat(key, call)) return found;
      guard.release(repository, [key]);
      return undefined;
    },
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
