/** One upload on its way into the bucket: see uploads.ts for the design. */
import { SvcError } from "../../../lib/base/errors.ts";
import type { UploadFile } from "../../../lib/store/object_store.ts";
import { collect, readStretch } from "./body.ts";
import type { Bucket } from "./bucket.ts";
import { compose, MOST_PARTS } from "./compose.ts";
import { isRefusedCondition, serviceCode } from "./errors.ts";
import { Tail } from "./tail.ts";
import {
  fingerprint,
  folderOf,
  loadState,
  type OpenMultipart,
  PART,
  position,
  putRecord,
  removeUpload,
  type Segment,
  type UploadState,
} from "./upload_state.ts";

export interface UploadHost {
  bucket: Bucket;
  /** The service honours `If-None-Match`. */
  conditional: boolean;
  /** Key of the bucket for a key of the store. */
  objectKey: (key: string) => string;
  /** Called after a flush: the upload holds so many bytes in memory that `release` could free. */
  kept: (upload: BucketUpload, bytes: number) => void;
}

export class BucketUpload implements UploadFile {
  offset: number;
  #segments: Segment[];
  #multipart: OpenMultipart | undefined;
  /** The offset at which the bytes of `#tail` begin. */
  #start: number;
  /** Undefined: the tail is durable under `#stored`, and not in memory. */
  #tail: Tail | undefined;
  #stored: Segment | undefined;
  /** Tail objects that are out of date. */
  #stale: string[] = [];
  /** The part that is being sent; resolves when it is durable. */
  #sending: Promise<void> = Promise.resolve();
  #busy = 0;
  #inherited: boolean;
  #failure: { error: unknown } | undefined;
  #ended = false;
  readonly #writer = crypto.randomUUID().slice(0, 8);

  constructor(readonly id: string, private readonly host: UploadHost, state: UploadState) {
    this.offset = state.offset;
    this.#segments = state.segments;
    this.#multipart = state.multipart;
    this.#inherited = state.segments.length > 0 || state.multipart !== undefined;
    this.#stored = state.tail;
    this.#start = state.offset - (state.tail?.size ?? 0);
    if (!state.tail) this.#tail = new Tail();
  }

  #name(kind: string, start: number): string {
    return `${folderOf(this.id)}${kind}-${position(start)}-${this.#writer}`;
  }

  /**
   * Runs one step. After a failure this handle accepts no more bytes: the next opening asks the bucket which
   * bytes are durable.
   */
  async #step<T>(attempted: string, work: () => Promise<T>): Promise<T> {
    if (this.#ended) throw new SvcError("internal", `Cannot use upload ${this.id}: it has ended`);
    if (this.#failure) throw this.#failure.error;
    this.#busy++;
    try {
      return await work();
    } catch (error) {
      this.#failure ??= { error: this.#explain(error, attempted) };
      throw this.#failure.error;
    } finally {
      this.#busy--;
    }
  }

  #explain(error: unknown, attempted: string): unknown {
    const overtaken = ["NoSuchUpload", "InvalidPart"].includes(serviceCode(error) ?? "");
    if (overtaken || isRefusedCondition(error)) {
      return new SvcError(
        "conflict",
        `Cannot ${attempted} upload ${this.id}: another server has continued it`,
        { cause: error },
      );
    }
    return this.host.bucket.fail(error, `${attempted} upload ${this.id}`);
  }

  async #loadTail(): Promise<Tail> {
    if (this.#tail) return this.#tail;
    const tail = new Tail();
    const { key, size } = this.#stored!;
    const found = await this.host.bucket.get(key, { start: 0 });
    if (found?.size !== size) {
      await found?.body.cancel();
      throw new SvcError(
        "conflict",
        `Cannot go on with upload ${this.id}: another server has continued it`,
      );
    }
    tail.add(await collect(found.body, size));
    return this.#tail = tail;
  }

  write(chunk: Uint8Array): Promise<void> {
    return this.#step("write", async () => {
      let tail = await this.#loadTail();
      for (let at = 0; at < chunk.length;) {
        const taken = tail.add(chunk.subarray(at));
        at += taken;
        this.offset += taken;
        if (!tail.full) continue;
        await this.#sending;
        this.#sending = this.#sendPart(tail.bytes);
        // Awaited by the next part, the flush or the commit; marked so that it never counts as unhandled.
        this.#sending.catch(() => {});
        this.#start += PART;
        if (this.#stored) this.#stale.push(this.#stored.key);
        this.#stored = undefined;
        tail = this.#tail = new Tail();
      }
    });
  }

  async #sendPart(bytes: Uint8Array): Promise<void> {
    const { bucket } = this.host;
    if ((this.#multipart?.parts.length ?? 0) >= MOST_PARTS) await this.#seal();
    const multipart = this.#multipart ?? await this.#begin();
    const { key, uploadId, parts } = multipart;
    const number = parts.length + 1;
    parts.push(await bucket.uploadPart(key, uploadId, number, bytes, { unsealed: true }));
  }

  async #begin(): Promise<OpenMultipart> {
    const start = this.#segments.reduce((sum, segment) => sum + segment.size, 0);
    const key = this.#name("segment", start);
    const uploadId = await this.host.bucket.createMultipart(key);
    await putRecord(this.host.bucket, this.#name("multipart", start), { key, uploadId });
    return this.#multipart = { key, uploadId, start, parts: [] };
  }

  /** Joins the parts into an object, so that they can be read; later parts are joined to it. */
  async #seal(): Promise<void> {
    const multipart = this.#multipart;
    if (!multipart || multipart.parts.length === 0) return;
    const { key, uploadId, parts } = multipart;
    const { bucket } = this.host;
    const size = parts.length * PART;
    try {
      await bucket.complete(key, uploadId, parts, { ifAbsent: this.host.conditional });
    } catch (error) {
      // The answer to the first attempt was lost, and the request was repeated.
      const over = serviceCode(error) === "NoSuchUpload" || isRefusedCondition(error);
      if (!over || (await bucket.head(key))?.size !== size) throw error;
    }
    this.#segments.push({ key, size });
    this.#multipart = undefined;
  }

  flush(): Promise<void> {
    return this.#step("write", async () => {
      const { bucket } = this.host;
      await this.#sending;
      const tail = this.#tail;
      if (tail && tail.size > 0 && tail.size !== this.#stored?.size) {
        const key = this.#name("tail", this.#start);
        await bucket.put(key, tail.bytes);
        if (this.#stored && this.#stored.key !== key) this.#stale.push(this.#stored.key);
        this.#stored = { key, size: tail.size };
      }
      for (const key of this.#stale.splice(0)) await bucket.delete(key);
      if (tail) this.host.kept(this, tail.size);
    });
  }

  /** Frees the tail's bytes where they are durable and not in use. */
  release(): void {
    if (this.#busy > 0 || !this.#stored || this.#tail?.size !== this.#stored.size) return;
    this.#tail = undefined;
  }

  read(): ReadableStream<Uint8Array> {
    return ReadableStream.from(this.#bytes());
  }

  async *#bytes(): AsyncGenerator<Uint8Array> {
    const { bucket } = this.host;
    const segments = await this.#step("read", async () => {
      await this.#sending;
      await this.#seal();
      return [...this.#segments];
    });
    for (const { key, size } of segments) {
      const head = await this.#step("read", () => bucket.head(key));
      yield* readStretch(bucket, { key, offset: 0, size, etag: head?.etag ?? "" });
    }
    const tail = await this.#step("read", () => this.#loadTail());
    // A copy: the buffer is overwritten later.
    if (tail.size > 0) yield tail.bytes.slice();
  }

  async commit(key: string, { replace = false }: { replace?: boolean } = {}): Promise<void> {
    await this.publish(key, replace ? "none" : "same size");
  }

  /** Moves the bytes to `key`. `keep`: which existing object stays; false is returned then. Ends the upload. */
  async publish(key: string, keep: "any" | "same size" | "none"): Promise<boolean> {
    const { bucket, conditional, objectKey } = this.host;
    const created = await this.#step("publish", async () => {
      await this.#sending;
      const target = objectKey(key);
      const tail = (await this.#loadTail()).bytes;
      const there = keep === "none" ? undefined : await bucket.head(target);
      if (there && (keep === "any" || there.size === this.offset)) return false;
      const ifAbsent = keep !== "none" && !there && conditional;
      if (this.#segments.length === 0 && !this.#multipart?.parts.length) {
        try {
          await bucket.put(target, tail, { ifAbsent });
          return true;
        } catch (error) {
          if (ifAbsent && isRefusedCondition(error)) return false;
          throw error;
        }
      }
      await this.#seal();
      return await compose(bucket, {
        segments: this.#segments,
        tail,
        key: target,
        ifAbsent,
        scratch: this.#name("join", 0),
        record: (uploadId) => putRecord(bucket, this.#commitRecord, { key: target, uploadId }),
      });
    });
    // Otherwise the search is needed: a multipart upload may be open and has to be ended through its record,
    // and another handle may have left segments.
    const known = created && !this.#multipart && !this.#inherited ? this.#objects() : undefined;
    this.#end();
    await this.#remove(known);
    return created;
  }

  async abort(): Promise<void> {
    await this.#sending.catch(() => {/* it goes */});
    this.#end();
    await this.#remove();
  }

  #end(): void {
    this.#ended = true;
    this.#tail = undefined;
    this.host.kept(this, 0);
  }

  /** The names of all objects of the upload that this handle knows, besides its mark. */
  #objects(): string[] {
    const sealed = this.#segments.map(({ key }) => key);
    return [
      ...sealed,
      ...sealed.map((key) => key.replace("/segment-", "/multipart-")),
      ...this.#stale,
      ...this.#stored ? [this.#stored.key] : [],
      ...sealed.length > 0 ? [this.#commitRecord] : [],
    ];
  }

  get #commitRecord(): string {
    return `${folderOf(this.id)}commit-${this.#writer}`;
  }

  async #remove(known?: string[]): Promise<void> {
    try {
      await removeUpload(this.host.bucket, this.id, { known });
    } catch (error) {
      throw this.host.bucket.fail(error, `remove upload ${this.id}`);
    }
  }

  async close(): Promise<void> {
    await this.#sending.catch(() => {/* nobody was told that it is durable */});
    this.#end();
  }

  /** False after another server continued or ended the upload, and after a failure. */
  async current(): Promise<boolean> {
    if (this.#ended || this.#failure) return false;
    const { bucket } = this.host;
    try {
      const state = await loadState(bucket, this.id, {});
      return state !== undefined && fingerprint(state) === fingerprint({
            segments: this.#segments,
            multipart: this.#multipart,
            tail: this.#stored,
            offset: this.offset,
          });
    } catch (error) {
      throw bucket.fail(error, `look up upload ${this.id}`);
    }
  }
}
