/**
 * Objects in a bucket, of whatever kind (bucket.ts):
 *
 *     <prefix>objects/<key>    visible objects
 *     <prefix>uploads/<id>/    resumable uploads (uploads.ts)
 *     <prefix>svc-store.json   says in which format
 *
 * Several servers may open one bucket. A rule of the bucket that drops incomplete multipart uploads after
 * some days does no harm beyond ending uploads that rest that long.
 */
import { SvcError } from "../../../lib/base/errors.ts";
import { KeyedMutex } from "../../../lib/base/mutex.ts";
import type { ByteRange } from "../../../lib/oci/image.ts";
import {
  type CallOptions,
  checkKey,
  type ListEntry,
  type ObjectBody,
  type ObjectInfo,
  type ObjectStore,
} from "../../../lib/store/object_store.ts";
import { eachOf } from "../../../lib/store/gc/each.ts";
import { resolveRange } from "../../../lib/store/range.ts";
import { collect, readStretch } from "./body.ts";
import type { Bucket } from "./bucket.ts";
import { isNotImplemented, isRefusedCondition, serviceStatus } from "./errors.ts";
import { Tail } from "./tail.ts";
import { BucketUploads } from "./uploads.ts";

const FORMAT = 1;
const MARKER = "svc-store.json";
/** Objects (or ranges) up to this many bytes come with the first request. */
const SMALL = 64 * 1024;

/** Keys of one page of a listing; no service gives more. */
const PAGE = 1_000;
/** Deletions that run at once. */
const DELETES = 16;

const objectKey = (key: string) => `objects/${key}`;

/**
 * Claims the bucket, and finds out whether the service honours conditional writes: the marker exists then, so
 * that a conditional write of it must be refused. A service that accepts the write overwrites the marker with
 * the same bytes.
 */
async function claim(bucket: Bucket): Promise<{ conditional: boolean }> {
  const bytes = new TextEncoder().encode(`${JSON.stringify({ format: FORMAT })}\n`);
  const found = await bucket.get(MARKER, { start: 0 });
  if (found) {
    const text = new TextDecoder().decode(await collect(found.body, found.size));
    const { format } = JSON.parse(text) as { format?: number };
    if (format !== FORMAT) {
      throw new SvcError(
        "data_dir_foreign",
        `Cannot open store ${bucket.shown}: its format is ${format}, this svc knows ${FORMAT}`,
      );
    }
  } else {
    await bucket.put(MARKER, bytes);
  }
  try {
    await bucket.put(MARKER, bytes, { ifAbsent: true });
    return { conditional: false };
  } catch (error) {
    if (isRefusedCondition(error)) return { conditional: true };
    if (isNotImplemented(error)) return { conditional: false };
    throw error;
  }
}

export interface BucketStoreOptions {
  /** Whether to use conditional writes; absent: where the service honours them. */
  conditional?: boolean;
}

/**
 * The store in a bucket, which it closes. Throws `config_invalid` where the environment lacks something, and
 * `upstream_failed` or `unavailable` where the bucket cannot be reached, written and read.
 */
export async function openBucket(
  bucket: Bucket,
  options: BucketStoreOptions = {},
): Promise<ObjectStore> {
  try {
    await bucket.ready();
    const { conditional } = await claim(bucket);
    return new BucketStore(bucket, options.conditional ?? conditional);
  } catch (error) {
    bucket.close();
    throw bucket.fail(error, "open the store");
  }
}

class BucketStore implements ObjectStore {
  readonly exclusive = false;
  readonly uploads: BucketUploads;
  /** Replaces conditional writes, within this process. */
  #locks = new KeyedMutex();

  readonly signedUrl?: ObjectStore["signedUrl"];

  constructor(private readonly bucket: Bucket, private readonly conditional: boolean) {
    if (bucket.signedUrl) {
      this.signedUrl = async (key, { seconds, signal }) => {
        checkKey(key);
        try {
          return await bucket.signedUrl!(objectKey(key), seconds, { signal });
        } catch (error) {
          throw bucket.fail(error, `sign an address of ${key}`);
        }
      };
    }
    this.uploads = new BucketUploads(bucket, { conditional, objectKey });
  }

  async get(
    key: string,
    options: CallOptions & { range?: ByteRange } = {},
  ): Promise<ObjectBody | undefined> {
    checkKey(key);
    const { signal, range } = options;
    if (range) resolveRange(range, Infinity, key);
    const start = range?.start ?? 0;
    const wanted = Math.min(range?.end ?? Infinity, start + SMALL - 1);
    const at = objectKey(key);
    try {
      const found = await this.bucket.get(at, { start, end: wanted }, { signal });
      if (!found) return undefined;
      const head = await collect(found.body, found.size);
      const { total, etag, modified } = found;
      const { offset, size } = resolveRange(range, total, key);
      const stretch = { key: at, offset, size, etag, head: head.subarray(0, size) };
      return {
        size,
        total,
        modified,
        stream: () => readStretch(this.bucket, stretch, { signal }),
      };
    } catch (error) {
      if (serviceStatus(error) !== 416) throw this.bucket.fail(error, `read ${key}`);
      // The range begins past the end, as every range of an empty object does.
      const info = await this.stat(key, { signal });
      if (!info) return undefined;
      const { size } = resolveRange(range, info.size, key);
      return {
        size,
        total: info.size,
        modified: info.modified,
        stream: () => ReadableStream.from([]),
      };
    }
  }

  async stat(key: string, options: CallOptions = {}): Promise<ObjectInfo | undefined> {
    checkKey(key);
    try {
      const head = await this.bucket.head(objectKey(key), options);
      return head && { key, size: head.size, modified: head.modified };
    } catch (error) {
      throw this.bucket.fail(error, `look up ${key}`);
    }
  }

  async put(
    key: string,
    body: Uint8Array | ReadableStream<Uint8Array>,
    options: CallOptions & { size?: number; ifAbsent?: boolean } = {},
  ): Promise<{ created: boolean }> {
    checkKey(key);
    options.signal?.throwIfAborted();
    const check = (written: number) => {
      if (options.size === undefined || options.size === written) return;
      throw new SvcError(
        "size_invalid",
        `Cannot store ${key}: expected ${options.size} bytes, got ${written}`,
      );
    };
    if (body instanceof Uint8Array) {
      check(body.length);
      return await this.#putBytes(key, body, options);
    }
    return await this.#putStream(key, body, options, check);
  }

  async #putBytes(
    key: string,
    bytes: Uint8Array,
    { signal, ifAbsent = false }: CallOptions & { ifAbsent?: boolean },
  ): Promise<{ created: boolean }> {
    const at = objectKey(key);
    try {
      if (!ifAbsent || this.conditional) {
        await this.bucket.put(at, bytes, { signal, ifAbsent });
        return { created: true };
      }
      return await this.#locks.run(key, async () => {
        if (await this.bucket.head(at, { signal })) return { created: false };
        await this.bucket.put(at, bytes, { signal });
        return { created: true };
      });
    } catch (error) {
      if (ifAbsent && isRefusedCondition(error)) return { created: false };
      throw this.bucket.fail(error, `store ${key}`);
    }
  }

  /**
   * Stores up to one part's bytes in one request; larger objects go as an upload, whose leftovers can be found
   * after a crash.
   */
  async #putStream(
    key: string,
    body: ReadableStream<Uint8Array>,
    options: CallOptions & { ifAbsent?: boolean },
    check: (written: number) => void,
  ): Promise<{ created: boolean }> {
    const first = new Tail();
    let written = 0;
    let upload: Awaited<ReturnType<BucketUploads["create"]>> | undefined;
    try {
      for await (const chunk of body) {
        options.signal?.throwIfAborted();
        written += chunk.length;
        if (upload) {
          await upload.write(chunk);
          continue;
        }
        const taken = first.add(chunk);
        if (taken === chunk.length) continue;
        upload = await this.uploads.create(`put-${crypto.randomUUID()}`, options);
        await upload.write(first.bytes);
        await upload.write(chunk.subarray(taken));
      }
      check(written);
      options.signal?.throwIfAborted();
      if (!upload) return await this.#putBytes(key, first.bytes, options);
      return { created: await upload.publish(key, options.ifAbsent ? "any" : "none") };
    } catch (error) {
      await upload?.abort().catch(() => {/* it expires */});
      throw error;
    }
  }

  async delete(key: string, options: CallOptions = {}): Promise<boolean> {
    if (!await this.stat(key, options)) return false;
    try {
      await this.bucket.delete(objectKey(key), options);
      return true;
    } catch (error) {
      throw this.bucket.fail(error, `delete ${key}`);
    }
  }

  /** Does not look whether each object exists, unlike `delete`. */
  async deleteAll(keys: string[], options: CallOptions = {}): Promise<void> {
    await eachOf(keys, DELETES, async (key) => {
      checkKey(key);
      options.signal?.throwIfAborted();
      try {
        await this.bucket.delete(objectKey(key), options);
      } catch (error) {
        throw this.bucket.fail(error, `delete ${key}`);
      }
    });
  }

  async *list(
    prefix: string,
    options: CallOptions & { after?: string; delimiter?: "/"; limit?: number } = {},
  ): AsyncGenerator<ListEntry> {
    if (prefix !== "") checkKey(prefix.slice(0, -1));
    const { after = "", delimiter, signal } = options;
    const limit = options.limit === undefined ? undefined : Math.min(options.limit, PAGE);
    // "~" sorts behind all characters of keys: the service skips the deeper keys.
    const from = after === ""
      ? undefined
      : objectKey(delimiter && after.endsWith("/") ? `${after}~` : after);
    const root = objectKey("").length;
    try {
      for (let token: string | undefined;;) {
        const page = await this.bucket.list(objectKey(prefix), {
          signal,
          after: from,
          token,
          delimiter,
          limit,
        });
        const entries: [string, ListEntry][] = [
          ...page.objects.map(({ key, ...rest }): [string, ListEntry] => {
            const name = key.slice(root);
            return [name, { key: name, ...rest }];
          }),
          ...page.prefixes.map((key): [string, ListEntry] => {
            const name = key.slice(root);
            return [name, { prefix: name }];
          }),
        ].sort(([a], [b]) => a < b ? -1 : 1);
        for (const [name, entry] of entries) if (name > after) yield entry;
        if (!(token = page.next)) return;
      }
    } catch (error) {
      throw this.bucket.fail(error, `list ${prefix}`);
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.bucket.close();
    return Promise.resolve();
  }
}
