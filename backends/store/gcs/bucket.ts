/**
 * A bucket of Google-style storage, by its JSON API. The API has no parts that can be listed and copied.
 * Instead, the service joins whole objects, 32 at a time: the parts of an upload are objects beside it.
 */
import { SvcError } from "../../../lib/base/errors.ts";
import type {
  Bucket,
  BucketOptions,
  Call,
  Head,
  Join,
  ListedPart,
  Page,
  Part,
} from "../shared/bucket.ts";
import { isMissing, ServiceError, storeError } from "../shared/errors.ts";
import { GcsHttp } from "./http.ts";
import type { GcsLocation } from "./location.ts";

/** Most objects that one request can join. */
const JOINED = 32;
/** Requests that run at once, for work that takes many. */
const AT_ONCE = 6;
/** Milliseconds until signing is tried again after a failure: an attempt can cost a request. */
const UNSIGNED_MS = 300_000;
const BYTES = "application/octet-stream";

interface Meta {
  name: string;
  size: string;
  generation: string;
  updated: string;
}

interface Source {
  key: string;
  /** The request is refused (412) where the object has another generation. */
  generation?: string;
}

async function each<T>(items: readonly T[], work: (item: T, index: number) => Promise<void>) {
  let next = 0;
  const worker = async () => {
    while (next < items.length) {
      const index = next++;
      await work(items[index], index);
    }
  };
  const done = await Promise.allSettled(Array.from({ length: AT_ONCE }, worker));
  for (const result of done) if (result.status === "rejected") throw result.reason;
}

const folderOf = (key: string) => key.slice(0, key.lastIndexOf("/") + 1);
const partPrefix = (key: string, uploadId: string) => `${folderOf(key)}part-${uploadId}-`;
const partKey = (key: string, uploadId: string, number: number) =>
  partPrefix(key, uploadId) + String(number).padStart(5, "0");

const noSuchUpload = () =>
  new ServiceError("NoSuchUpload", 404, "another server made an object of the parts");

export class GcsBucket implements Bucket {
  readonly shown: string;
  #http: GcsHttp;
  #root: string;
  /** No signing is tried before this time, after a failure. */
  #unsignedUntil = -Infinity;

  constructor(private readonly location: GcsLocation, options: BucketOptions = {}) {
    this.shown = location.shown;
    this.#root = `/b/${encodeURIComponent(location.bucket)}/o`;
    this.#http = new GcsHttp(location, options);
  }

  async ready(): Promise<void> {
    await this.#http.service();
  }

  #path(key: string): string {
    return `/storage/v1${this.#root}/${encodeURIComponent(this.location.prefix + key)}`;
  }

  fail(error: unknown, attempted: string): unknown {
    return storeError(error, attempted, this.shown);
  }

  async head(key: string, call: Call = {}): Promise<Head | undefined> {
    try {
      const query = { fields: "size,generation,updated" };
      const meta = await this.#http.json<Meta>({ ...call, path: this.#path(key), query });
      return {
        size: Number(meta.size),
        etag: meta.generation,
        modified: new Date(meta.updated),
      };
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw error;
    }
  }

  async get(
    key: string,
    range: { start: number; end?: number },
    { etag, signal }: Call & { etag?: string } = {},
  ): Promise<(Head & { total: number; body: ReadableStream<Uint8Array> }) | undefined> {
    try {
      const { headers, body } = await this.#http.send({
        signal,
        path: this.#path(key),
        query: { alt: "media", ifGenerationMatch: etag },
        headers: { range: `bytes=${range.start}-${range.end ?? ""}` },
      });
      const sent = /^bytes (\d+)-(\d+)\/(\d+)$/.exec(headers.get("content-range") ?? "");
      const size = sent
        ? Number(sent[2]) - Number(sent[1]) + 1
        : Number(headers.get("content-length") ?? 0);
      return {
        size,
        total: sent ? Number(sent[3]) : size,
        etag: headers.get("x-goog-generation") ?? "",
        modified: new Date(headers.get("last-modified") ?? 0),
        body: body ?? ReadableStream.from([]),
      };
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw error;
    }
  }

  async #insert(key: string, body: Uint8Array, call: Call & { ifAbsent?: boolean }): Promise<Meta> {
    try {
      return await this.#http.json<Meta>({
        signal: call.signal,
        method: "POST",
        path: `/upload/storage/v1${this.#root}`,
        query: {
          uploadType: "media",
          name: this.location.prefix + key,
          ifGenerationMatch: call.ifAbsent ? 0 : undefined,
          fields: "size,generation,updated",
        },
        headers: { "content-type": BYTES },
        body,
      });
    } catch (error) {
      throw this.#bucketMissing(error);
    }
  }

  /** For requests where only the bucket can be missing. */
  #bucketMissing(error: unknown): unknown {
    return isMissing(error)
      ? new ServiceError("NoSuchBucket", 404, (error as Error).message, { cause: error })
      : error;
  }

  async put(key: string, body: Uint8Array, call: Call & { ifAbsent?: boolean } = {}) {
    await this.#insert(key, body, call);
  }

  async delete(key: string, { signal }: Call = {}): Promise<void> {
    try {
      const { body } = await this.#http.send({ signal, method: "DELETE", path: this.#path(key) });
      await body?.cancel();
    } catch (error) {
      if (!isMissing(error)) throw error;
    }
  }

  async list(
    prefix: string,
    options: Call & { after?: string; token?: string; delimiter?: "/"; limit?: number } = {},
  ): Promise<Page> {
    const root = this.location.prefix;
    const { after, token, delimiter, limit, signal } = options;
    try {
      const found = await this.#http.json<
        { items?: Meta[]; prefixes?: string[]; nextPageToken?: string }
      >({
        signal,
        path: `/storage/v1${this.#root}`,
        query: {
          prefix: root + prefix,
          delimiter,
          maxResults: limit,
          pageToken: token,
          startOffset: after === undefined ? undefined : root + after,
          fields: "nextPageToken,prefixes,items(name,size,updated)",
        },
      });
      return {
        objects: (found.items ?? []).map(({ name, size, updated }) => ({
          key: name.slice(root.length),
          size: Number(size),
          modified: new Date(updated),
        })),
        prefixes: (found.prefixes ?? []).map((name) => name.slice(root.length)),
        ...(found.nextPageToken && { next: found.nextPageToken }),
      };
    } catch (error) {
      throw this.#bucketMissing(error);
    }
  }

  createMultipart(): Promise<string> {
    return Promise.resolve(crypto.randomUUID());
  }

  async uploadPart(
    key: string,
    uploadId: string,
    number: number,
    body: Uint8Array,
    { signal, unsealed }: Call & { unsealed?: boolean } = {},
  ): Promise<Part> {
    const at = partKey(key, uploadId, number);
    const [{ generation }, there] = await Promise.all([
      this.#insert(at, body, { signal }),
      unsealed ? this.head(key, { signal }) : undefined,
    ]);
    if (!there) return { number, etag: generation };
    await this.delete(at).catch(() => {/* it goes with the upload */});
    throw noSuchUpload();
  }

  copyPart(): Promise<Part> {
    return Promise.reject(new ServiceError("NotImplemented", 501));
  }

  async listParts(
    key: string,
    uploadId: string,
    call: Call = {},
  ): Promise<ListedPart[] | undefined> {
    const prefix = this.location.prefix + partPrefix(key, uploadId);
    const parts: ListedPart[] = [];
    for (let pageToken: string | undefined;;) {
      const found = await this.#http.json<{ items?: Meta[]; nextPageToken?: string }>({
        ...call,
        path: `/storage/v1${this.#root}`,
        query: { prefix, pageToken, fields: "nextPageToken,items(name,size,generation,updated)" },
      });
      for (const { name, size, generation, updated } of found.items ?? []) {
        parts.push({
          number: Number(name.slice(prefix.length)),
          etag: generation,
          size: Number(size),
          modified: new Date(updated),
        });
      }
      if (!(pageToken = found.nextPageToken)) break;
    }
    // The parts were joined meanwhile: they are gone, or about to be.
    return await this.head(key, call) ? undefined : parts;
  }

  async #composeOnce(
    sources: Source[],
    key: string,
    { signal, ifAbsent }: Call & { ifAbsent?: boolean },
  ): Promise<void> {
    const { prefix } = this.location;
    const { body } = await this.#http.send({
      signal,
      method: "POST",
      path: `${this.#path(key)}/compose`,
      query: { ifGenerationMatch: ifAbsent ? 0 : undefined, fields: "generation" },
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        destination: { contentType: BYTES },
        sourceObjects: sources.map((source) => ({
          name: prefix + source.key,
          ...(source.generation && {
            objectPreconditions: { ifGenerationMatch: source.generation },
          }),
        })),
      }),
      works: true,
    });
    await body?.cancel();
  }

  /**
   * Joins in as many rounds as needed. `scratch` begins the names of the rounds' objects, which are removed
   * again.
   */
  async #compose(
    sources: Source[],
    key: string,
    scratch: string,
    call: Call & { ifAbsent?: boolean },
  ): Promise<void> {
    const made: string[] = [];
    try {
      let left = sources;
      while (left.length > JOINED) {
        const groups = Array.from(
          { length: Math.ceil(left.length / JOINED) },
          (_, i) => left.slice(i * JOINED, (i + 1) * JOINED),
        );
        const from = made.length;
        const joined = groups.map((_, i): Source => ({ key: `${scratch}-${from + i}` }));
        made.push(...joined.map((source) => source.key));
        await each(
          groups,
          (group, i) => this.#composeOnce(group, joined[i].key, { signal: call.signal }),
        );
        left = joined;
      }
      await this.#composeOnce(left, key, call);
    } finally {
      await this.#drop(made);
    }
  }

  /** Objects that cannot be removed now are removed with the upload's folder. */
  async #drop(keys: string[]): Promise<void> {
    await each(keys, (key) => this.delete(key)).catch(() => {/* later */});
  }

  async complete(
    key: string,
    uploadId: string,
    parts: Part[],
    call: Call & { ifAbsent?: boolean } = {},
  ): Promise<void> {
    const sources = parts.map(({ number, etag }): Source => ({
      key: partKey(key, uploadId, number),
      generation: etag,
    }));
    try {
      await this.#compose(sources, key, `${folderOf(key)}join-${uploadId}`, call);
    } catch (error) {
      if (isMissing(error)) throw noSuchUpload();
      throw error;
    }
    await this.#drop(sources.map((source) => source.key));
  }

  async abortMultipart(key: string, uploadId: string, call: Call = {}): Promise<void> {
    const parts = partPrefix(key, uploadId);
    for (let token: string | undefined;;) {
      const page = await this.list(parts, { ...call, token });
      await each(page.objects, (part) => this.delete(part.key, call));
      if (!(token = page.next)) return;
    }
  }

  async join({ sources, tail, key, ifAbsent, scratch }: Join, call: Call = {}): Promise<void> {
    const all = sources.map((source): Source => ({ key: source }));
    const last = `${scratch}-tail`;
    try {
      if (tail.length > 0) {
        await this.put(last, tail, call);
        all.push({ key: last });
      }
      await this.#compose(all, key, scratch, { ...call, ifAbsent });
    } catch (error) {
      throw isMissing(error)
        ? new SvcError("conflict", `Cannot store ${key}: what it is made of is gone`, {
          cause: error,
        })
        : error;
    } finally {
      if (tail.length > 0) await this.#drop([last]);
    }
  }

  async signedUrl(key: string, seconds: number, call: Call = {}): Promise<string | undefined> {
    const { storage, open } = await this.#http.service();
    if (open || performance.now() < this.#unsignedUntil) return undefined;
    const file = storage.bucket(this.location.bucket).file(this.location.prefix + key);
    try {
      const [url] = await this.#http.limited(call, () =>
        file.getSignedUrl({
          version: "v4",
          action: "read",
          expires: Date.now() + seconds * 1000,
        }));
      return url;
    } catch (error) {
      // A person's credentials, or a service account that may not sign.
      if ((error as Error).name !== "SigningError") throw error;
      this.#unsignedUntil = performance.now() + UNSIGNED_MS;
      return undefined;
    }
  }

  close(): void {
    this.#http.close();
  }
}
