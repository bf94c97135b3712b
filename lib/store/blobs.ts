/**
 * Blobs under the rules of digests and leases. All repositories share blobs: any repository may mount or read a
 * blob by its digest (a digest cannot be guessed, and svc's policies are not per repository). So a blob is
 * removed only when no manifest of any repository refers to it.
 */
import { SvcError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { type DigestAlgorithm, parseDigest, verified } from "../oci/digest.ts";
import type { BlobBody, ByteRange } from "../oci/image.ts";
import type { Descriptor, Digest } from "../oci/types.ts";
import type { BlobPlaces } from "./blob_places.ts";
import type { LookOptions } from "./content_store.ts";
import type { Damage } from "./damage.ts";
import type { Guard } from "./gc/guard.ts";
import { blobKey, repoKey } from "./keys.ts";
import type { Manifests } from "./manifests.ts";
import type { CallOptions, ObjectStore } from "./object_store.ts";
import type { Upload } from "./upload.ts";
import type { Uploads } from "./uploads.ts";

/** Blobs up to this size are stored in one step: an upload takes several. */
const SMALL = 64 * 1024;

type Wanted = Pick<Descriptor, "digest" | "size">;

interface BlobParts {
  objects: ObjectStore;
  places: BlobPlaces;
  damage: Damage;
  guard: Guard;
  manifests: Manifests;
  uploads: Uploads;
  log: Logger;
}

export class Blobs {
  readonly #parts: BlobParts;

  constructor(parts: BlobParts) {
    this.#parts = parts;
  }

  async stat(
    repository: string,
    digest: Digest,
    call: LookOptions = {},
  ): Promise<{ size: number } | undefined> {
    if (call.probe) return await this.look(repository, digest, call);
    const info = await this.#parts.places.stat(digest, call);
    return info && { size: info.size };
  }

  /** Finds and leases a blob. The caller may then push a manifest that names the blob. */
  async look(
    repository: string,
    digest: Digest,
    call: CallOptions = {},
  ): Promise<{ size: number } | undefined> {
    const { guard, places } = this.#parts;
    const key = blobKey(digest);
    // A claim in a shared store costs a write: none is written for a missing blob.
    const before = guard.shared ? await places.stat(digest, call) : undefined;
    if (guard.shared && !before) return undefined;
    if (!await guard.lease(repository, key, call)) return before && { size: before.size };
    const info = await places.stat(digest, call).catch((error) => {
      guard.release(repository, [key]);
      throw error;
    });
    if (!info) guard.release(repository, [key]);
    return info && { size: info.size };
  }

  /** True where {@linkcode look} finds the blob with the wanted size. */
  async #holds(repository: string, { digest, size }: Wanted, call: CallOptions): Promise<boolean> {
    const found = await this.look(repository, digest, call);
    if (found && found.size !== size) this.#parts.guard.release(repository, [blobKey(digest)]);
    return found?.size === size;
  }

  async get(
    digest: Digest,
    call: CallOptions & { range?: ByteRange } = {},
  ): Promise<BlobBody | undefined> {
    const { places, damage, log } = this.#parts;
    const body = await places.get(digest, call);
    if (!body) return undefined;
    const wrong = (message: string) =>
      void damage.tell(body.key, message).catch((error) =>
        log.warn("a damaged blob was not recorded", { error })
      );
    return {
      size: body.size,
      stream: () => call.range ? body.stream() : verified(body.stream(), digest, body.total, wrong),
      ...(body.file && { file: body.file }),
    };
  }

  async put(
    repository: string,
    { digest, size }: Wanted,
    body: ReadableStream<Uint8Array>,
    call: CallOptions = {},
  ): Promise<void> {
    const { places, log } = this.#parts;
    const { algorithm } = parseDigest(digest);
    if (await this.#holds(repository, { digest, size }, call)) return await body.cancel();
    if (size <= SMALL) {
      // Throws for an invalid name, as an upload does.
      repoKey(repository);
      const given = body.pipeThrough(new TransformStream(), { signal: call.signal });
      const bytes = await new Response(verified(given, digest, size) as BodyInit).bytes();
      await this.#placed(repository, digest, call, async () => {
        await places.put(digest, bytes, { signal: call.signal });
        return true;
      });
      return;
    }
    const upload = await this.start(repository, { ...call, algorithm });
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
  }

  /** Present only where the object store can adopt files. */
  async adopt(
    repository: string,
    { digest, size }: Wanted,
    path: string,
    call: CallOptions = {},
  ): Promise<boolean> {
    if (await this.#holds(repository, { digest, size }, call)) return true;
    const { objects, damage } = this.#parts;
    return await this.#placed(repository, digest, call, async (key) => {
      const adopted = await objects.adopt!(key, path, call);
      if (adopted) await damage.good(key, size);
      return adopted;
    });
  }

  /** Leases a blob, then stores it under its key; false where `store` did not store it. */
  async #placed(
    repository: string,
    digest: Digest,
    call: CallOptions,
    store: (key: string) => Promise<boolean>,
  ): Promise<boolean> {
    const { guard } = this.#parts;
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
  }

  async delete(digest: Digest, call: CallOptions = {}): Promise<boolean> {
    const { places, guard, manifests, objects, damage } = this.#parts;
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
  }

  async start(
    repository: string,
    call?: CallOptions & { algorithm?: DigestAlgorithm },
  ): Promise<Upload> {
    return this.#leased(await this.#parts.uploads.start(repository, call));
  }

  async open(repository: string, id: string, call?: CallOptions): Promise<Upload | undefined> {
    const upload = await this.#parts.uploads.open(repository, id, call);
    return upload && this.#leased(upload);
  }

  /** An upload whose bytes keep its repository's leases young. Its blob is leased before the client hears of it. */
  #leased(upload: Upload): Upload {
    const { guard } = this.#parts;
    return {
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
    };
  }
}
