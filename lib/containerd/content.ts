/** Blobs in containerd's content store: reading, and writing that resumes after an interruption. */
import { Buffer } from "node:buffer";
import { SvcError } from "../base/errors.ts";
import { syncDir } from "../base/fs.ts";
import { lazy } from "../base/lazy.ts";
import { KeyedMutex } from "../base/mutex.ts";
import { waitFor } from "../base/wait_for.ts";
import { verified } from "../oci/digest.ts";
import type { BlobBody, ByteRange } from "../oci/image.ts";
import type { Descriptor, Digest } from "../oci/types.ts";
import { Leases } from "./api.ts";
import type { CallOptions } from "./client.ts";
import type { ContainerdClient } from "./client.ts";
import { Content, type ContentInfo, type IngestStatus, Plugins, WRITE } from "./image_api.ts";
import {
  beginWrite,
  commitWrite,
  contentInfo,
  dropWrite,
  ended,
  isCode,
  leaveWrite,
  type WriteHead,
  type Writing,
  wrong,
} from "./writing.ts";

/** Bytes of one message: below containerd's limit, and enough to be worth an answer. */
const PIECE = 1 << 20;
export interface WriteOptions extends CallOptions {
  labels?: Record<string, string>;
}

export interface WriteSource {
  /** The bytes from `offset` on. */
  open(offset: number): Promise<ReadableStream<Uint8Array>>;
  /** False: the source cannot start in the middle, so `offset` is always 0. */
  ranges: boolean;
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

/**
 * For all messages before the commit. containerd would else take content of that digest from another namespace, and
 * the caller need not have the bytes.
 */
const unnamed = (head: WriteHead): WriteHead => ({ ...head, expected: "" });

export class ContainerdContent {
  readonly #client: ContainerdClient;
  readonly #refs: string;
  readonly #writes = new KeyedMutex();
  /** Folder of the blobs; undefined where this process cannot see it. */
  readonly #folder = lazy(() => this.#findFolder());

  /** `owner`: prefix that marks this server's writes. */
  constructor(client: ContainerdClient, owner: string) {
    this.#client = client;
    this.#refs = `svc-${owner}-`;
  }

  info(digest: Digest, options?: CallOptions): Promise<ContentInfo | undefined> {
    return contentInfo(this.#client, digest, options);
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
    const path = await this.#file(digest, size);
    const fileAt = (offset: number) => path === undefined ? {} : { file: { path, offset } };
    if (!range) {
      const stream = () =>
        verified(this.#read({ digest, offset: 0, size: 0 }, signal), digest, size);
      return { size, stream, ...fileAt(0) };
    }
    const offset = Math.min(range.start, size);
    const length = Math.min((range.end ?? size - 1) + 1, size) - offset;
    if (length <= 0) {
      throw new SvcError(
        "range_invalid",
        `Cannot read ${digest} from ${range.start}: it has ${size} bytes`,
      );
    }
    const stream = () => this.#read({ digest, offset, size: length }, signal);
    return { size: length, stream, ...fileAt(offset) };
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
    await waitFor(written, signal);
  }

  /** This owner's writes that are begun and not committed. */
  async ingests(): Promise<IngestStatus[]> {
    const { statuses } = await this.#client.call(Content.statuses, {}, "Cannot list writes");
    return statuses.filter(({ ref }) => ref.startsWith(this.#refs));
  }

  /** Drops a write that is not committed. False where another client still holds it. */
  async drop(ref: string): Promise<boolean> {
    return await this.#writes.run(ref.slice(this.#refs.length), () => dropWrite(this.#client, ref));
  }

  async #write(
    { digest, size }: Pick<Descriptor, "digest" | "size">,
    source: WriteSource,
    { labels = {}, ...options }: WriteOptions,
  ): Promise<void> {
    const attempted = `Cannot write ${digest} to containerd`;
    const { lease, signal } = options;
    const there = lease === undefined
      ? await this.info(digest, { signal })
      : await this.hold(digest, { lease, signal });
    if (there) return;
    const head = { ref: `${this.#refs}${digest}`, total: size, expected: digest };
    const begun = await beginWrite(this.#client, unnamed(head), attempted, options);
    using call = begun.call;
    try {
      const at = begun.offset === size || source.ranges ? begun.offset : 0;
      if (at < size) await this.#send(call, head, { at, source, attempted });
      await commitWrite(this.#client, call, head, { labels, attempted, options });
    } catch (error) {
      await leaveWrite(call);
      if (isCode(error, "digest_invalid")) await dropWrite(this.#client, head.ref);
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
      await call.send({ ...unnamed(head), action: WRITE, offset, data });
      if (await call.receive() === undefined) throw ended(attempted);
      offset += data.length;
    }
    if (offset < size) throw wrong(head, `it ended after ${offset} of ${size} bytes`);
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
    const folder = await this.#folder.get();
    if (folder === undefined) return undefined;
    const path = `${folder}/blobs/${digest.replace(":", "/")}`;
    try {
      const stat = await Deno.stat(path);
      return stat.isFile && stat.size === size ? path : undefined;
    } catch {
      return undefined; // not containerd's own store, or not visible to this process
    }
  }

  /**
   * Makes the names of all stored blobs survive a power cut: containerd syncs a blob's bytes, and not the folder
   * that it then moves the blob to. Nothing is done where this process cannot see the folder.
   */
  async sync(): Promise<void> {
    const folder = await this.#folder.get();
    if (folder === undefined) return;
    try {
      await syncDir(`${folder}/blobs/sha256`);
    } catch (error) {
      if (
        !(error instanceof Deno.errors.NotFound || error instanceof Deno.errors.PermissionDenied)
      ) {
        throw error;
      }
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
