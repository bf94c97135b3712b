/** Blobs in containerd's content store: reading, and writing that resumes after an interruption. */
import { Buffer } from "node:buffer";
import { SvcError } from "../base/errors.ts";
import { KeyedMutex } from "../base/mutex.ts";
import { verified } from "../oci/digest.ts";
import type { BlobBody, ByteRange } from "../oci/image.ts";
import type { Descriptor, Digest } from "../oci/types.ts";
import { Leases } from "./api.ts";
import type { Call, CallOptions } from "./call.ts";
import type { ContainerdClient } from "./client.ts";
import {
  COMMIT,
  Content,
  type ContentInfo,
  type IngestStatus,
  Plugins,
  STAT,
  WRITE,
  type WriteMessage,
} from "./image_api.ts";

/** Bytes of one message: below containerd's limit, and enough to be worth an answer. */
const PIECE = 1 << 20;
/**
 * How long to wait for a write that another client holds, in milliseconds: containerd releases it some time
 * after that client has gone.
 */
const LOCKED_MS = 10_000;
const LOCKED_EVERY_MS = 50;

export interface WriteOptions extends CallOptions {
  labels?: Record<string, string>;
}

export interface WriteSource {
  /** The bytes from `offset` on. */
  open(offset: number): Promise<ReadableStream<Uint8Array>>;
  /** False: the source cannot start in the middle, so `offset` is always 0. */
  ranges: boolean;
}

type Writing = Call<WriteMessage, { action: number; offset: number }>;
type WriteHead = Omit<WriteMessage, "action">;

const isCode = (error: unknown, ...codes: string[]) =>
  error instanceof SvcError && codes.includes(error.code);

/** Undefined instead of a `not_found` error. */
export async function orMissing<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if (isCode(error, "not_found")) return undefined;
    throw error;
  }
}

const ended = (attempted: string) =>
  new SvcError("upstream_failed", `${attempted}: it ended the write before it was committed`, {
    help: "see containerd's log",
  });

const wrong = ({ expected }: WriteHead, why: string, cause?: unknown) =>
  new SvcError("digest_invalid", `Cannot store blob ${expected}: ${why}`, { cause });

/** Resolves when containerd has ended the call, with or without an error. */
async function drained(call: Writing): Promise<void> {
  try {
    while (await call.receive() !== undefined) { /* the answers do not matter any more */ }
  } catch {
    // The reason does not matter either.
  }
}

/** The stream's bytes in pieces of about {@linkcode PIECE}. */
async function* piecesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  let held: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of stream) {
    for (let at = 0; at < chunk.length;) {
      const part = chunk.subarray(at, at + PIECE - bytes);
      held.push(part);
      bytes += part.length;
      at += part.length;
      if (bytes < PIECE) continue;
      yield Buffer.concat(held);
      held = [];
      bytes = 0;
    }
  }
  if (bytes > 0) yield Buffer.concat(held);
}

/** Stops waiting when the signal aborts. */
async function abortable<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return await work;
  const { promise, reject } = Promise.withResolvers<never>();
  const abort = () => reject(signal.reason);
  if (signal.aborted) abort();
  signal.addEventListener("abort", abort, { once: true });
  try {
    return await Promise.race([work, promise]);
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

export class ContainerdContent {
  readonly #client: ContainerdClient;
  readonly #refs: string;
  readonly #writes = new KeyedMutex();
  /** Folder of the blobs; undefined where this process cannot see it. */
  #folder: Promise<string | undefined> | undefined;

  /** `owner`: prefix that marks this server's writes. */
  constructor(client: ContainerdClient, owner: string) {
    this.#client = client;
    this.#refs = `svc-${owner}-`;
  }

  async info(digest: Digest, options?: CallOptions): Promise<ContentInfo | undefined> {
    const call = this.#client.call(Content.info, { digest }, `Cannot look for ${digest}`, options);
    return (await orMissing(call))?.info;
  }

  /** Adds content to a lease; undefined where the content is missing. */
  async hold(
    digest: Digest,
    { lease, signal }: CallOptions & { lease: string },
  ): Promise<ContentInfo | undefined> {
    const resource = { id: digest, type: "content" as const };
    // The lease comes first: content that exists after this call stays.
    await this.#client.call(Leases.add, { id: lease, resource }, `Cannot keep ${digest}`, {
      signal,
    });
    return await this.info(digest, { signal });
  }

  /** The bytes of existing content. A whole blob is verified as it passes. */
  async body(
    { digest, size }: { digest: Digest; size: number },
    { range, signal }: { range?: ByteRange; signal?: AbortSignal } = {},
  ): Promise<BlobBody> {
    if (!range) {
      const file = await this.#file(digest, size);
      const stream = () =>
        verified(this.#read({ digest, offset: 0, size: 0 }, signal), digest, size);
      return { size, stream, ...(file !== undefined && { file: { path: file, offset: 0 } }) };
    }
    const offset = Math.min(range.start, size);
    const length = Math.min((range.end ?? size - 1) + 1, size) - offset;
    if (length <= 0) {
      throw new SvcError(
        "range_invalid",
        `Cannot read ${digest} from ${range.start}: it has ${size} bytes`,
      );
    }
    return { size: length, stream: () => this.#read({ digest, offset, size: length }, signal) };
  }

  /**
   * Stores a blob. An existing blob is left unchanged, and its source is not read. An interrupted write stays
   * in containerd, which drops it after a day unless the lease keeps it. Throws `digest_invalid` where the
   * bytes do not match; none of them are kept.
   */
  async write(
    descriptor: Pick<Descriptor, "digest" | "size">,
    source: WriteSource,
    options: WriteOptions = {},
  ): Promise<void> {
    const { signal } = options;
    // One writer per blob: a second writer then finds the blob stored.
    const written = this.#writes.run(descriptor.digest, async () => {
      signal?.throwIfAborted();
      await this.#write(descriptor, source, options);
    });
    written.catch(() => {/* thrown below, unless the caller has left */});
    await abortable(written, signal);
  }

  /** This owner's writes that are begun and not committed. */
  async ingests(): Promise<IngestStatus[]> {
    const { statuses } = await this.#client.call(Content.statuses, {}, "Cannot list writes");
    return statuses.filter(({ ref }) => ref.startsWith(this.#refs));
  }

  /** Drops a write that is not committed. False where another client still holds it. */
  async drop(ref: string): Promise<boolean> {
    return await this.#writes.run(ref.slice(this.#refs.length), () => this.#drop(ref));
  }

  async #drop(ref: string): Promise<boolean> {
    const until = performance.now() + LOCKED_MS;
    for (;;) {
      try {
        await orMissing(this.#client.call(Content.abort, { ref }, `Cannot drop write ${ref}`));
        return true;
      } catch (error) {
        // containerd has not noticed yet that the writing client is gone.
        if (!isCode(error, "unavailable", "internal")) throw error;
        if (performance.now() > until) return false;
      }
      await new Promise((next) => setTimeout(next, LOCKED_EVERY_MS));
    }
  }

  async #write(
    { digest, size }: Pick<Descriptor, "digest" | "size">,
    source: WriteSource,
    { labels = {}, ...options }: WriteOptions,
  ): Promise<void> {
    const attempted = `Cannot write ${digest} to containerd`;
    const head = { ref: `${this.#refs}${digest}`, total: size, expected: digest };
    const begun = await this.#begin(head, attempted, options);
    if (!begun) return;
    using call = begun.call;
    try {
      const at = begun.offset === size || source.ranges ? begun.offset : 0;
      if (at < size) await this.#send(call, head, { at, source, attempted });
      await this.#commit(call, head, { labels, attempted, options });
    } catch (error) {
      // Waits until containerd has released the write, so that the next attempt can take it.
      call.end();
      await drained(call);
      if (isCode(error, "digest_invalid")) await this.#drop(head.ref);
      throw error;
    }
  }

  async #send(
    call: Writing,
    head: WriteHead,
    { at, source, attempted }: { at: number; source: WriteSource; attempted: string },
  ): Promise<void> {
    const size = head.total;
    let offset = at;
    for await (const data of piecesOf(await source.open(at))) {
      if (offset + data.length > size) throw wrong(head, `it is longer than ${size} bytes`);
      await call.send({ ...head, action: WRITE, offset, data });
      if (await call.receive() === undefined) throw ended(attempted);
      offset += data.length;
    }
    if (offset < size) throw wrong(head, `it ended after ${offset} of ${size} bytes`);
  }

  async #commit(
    call: Writing,
    head: WriteHead,
    { labels, attempted, options }: {
      labels: Record<string, string>;
      attempted: string;
      options: CallOptions;
    },
  ): Promise<void> {
    const message = { ...head, action: COMMIT, offset: head.total, labels };
    await call.send(message, { last: true });
    let committed = false;
    try {
      // containerd may answer a commit more than once.
      for (let answer; (answer = await call.receive()) !== undefined;) {
        committed ||= answer.action === COMMIT;
      }
      if (!committed) throw ended(attempted);
    } catch (error) {
      if (!isCode(error, "conflict", "unavailable")) throw error;
      // Either another writer has stored the blob, or the bytes do not match the digest.
      if (await this.info(head.expected, options)) return;
      if (isCode(error, "unavailable")) throw error;
      throw wrong(head, "its content is other than the digest says", error);
    }
  }

  /** Undefined where the blob exists already. */
  async #begin(
    head: WriteHead,
    attempted: string,
    options: CallOptions,
  ): Promise<{ call: Writing; offset: number } | undefined> {
    const until = performance.now() + LOCKED_MS;
    for (;;) {
      const call = await this.#client.open(Content.write, attempted, options);
      try {
        await call.send({ ...head, action: STAT });
        const answer = await call.receive();
        return { call, offset: answer?.offset ?? 0 };
      } catch (error) {
        call[Symbol.dispose]();
        if (isCode(error, "conflict")) return undefined;
        if (!isCode(error, "unavailable") || performance.now() > until) throw error;
      }
      await new Promise((next) => setTimeout(next, LOCKED_EVERY_MS));
    }
  }

  #read(
    input: { digest: Digest; offset: number; size: number },
    signal?: AbortSignal,
  ): ReadableStream<Uint8Array> {
    const { digest } = input;
    const parts = this.#client.stream(Content.read, input, `Cannot read ${digest}`, { signal });
    return ReadableStream.from(dataOf(parts));
  }

  async #file(digest: Digest, size: number): Promise<string | undefined> {
    const folder = await (this.#folder ??= this.#findFolder());
    if (folder === undefined) return undefined;
    const path = `${folder}/blobs/${digest.replace(":", "/")}`;
    try {
      const stat = await Deno.stat(path);
      return stat.isFile && stat.size === size ? path : undefined;
    } catch {
      return undefined; // not containerd's own store, or not visible to this process
    }
  }

  async #findFolder(): Promise<string | undefined> {
    const filters = ["type==io.containerd.content.v1,id==content"];
    const { plugins } = await this.#client.call(Plugins, { filters }, "Cannot look for content");
    return plugins[0]?.exports.root;
  }
}

async function* dataOf(parts: AsyncIterable<{ data: Uint8Array }>): AsyncGenerator<Uint8Array> {
  for await (const { data } of parts) yield data;
}
