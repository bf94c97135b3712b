/** The destination of a transfer, and its form for a registry. */
import { SvcError } from "../base/errors.ts";
import type { ImageSink } from "../oci/image.ts";
import type { Descriptor } from "../oci/types.ts";
import type { Part, Plan } from "./plan.ts";
import type { RegistryPlace } from "./place.ts";

export type Outcome = "copied" | "exists" | "mounted";

/** The source of a blob's bytes. */
export interface BlobOrigin {
  /** The bytes from `offset` on. From 0 on they are verified while they are read. */
  open(offset: number, signal: AbortSignal): Promise<ReadableStream<Uint8Array>>;
  /** A registry and repository that have the blob. */
  registry?: { host: string; repository: string };
}

export interface BlobCall {
  signal: AbortSignal;
  /** Called with the number of bytes that have arrived so far. */
  report: (bytes: number) => void;
}

/**
 * The destination of one transfer. The image is not visible under its name before `finish`. Disposing without
 * `finish` keeps what a later transfer can use.
 */
export interface TransferSink extends AsyncDisposable {
  /** True where it holds images of one platform only, without an index. */
  readonly single: boolean;
  begin(plan: Plan, signal: AbortSignal): Promise<void>;
  /** Receives one blob; several calls run at once. Throws `digest_invalid`, `size_invalid`. */
  blob(descriptor: Descriptor, origin: BlobOrigin, call: BlobCall): Promise<Outcome>;
  /** Makes the image visible; returns its names, without digest. */
  finish(plan: Plan, signal: AbortSignal): Promise<string[]>;
  /** Where the bytes of a failed transfer are kept, if any are. */
  kept?(): string | undefined;
}

/** Attempts for an upload that the registry lost. */
const UPLOADS = 3;

/**
 * True where the registry forgot the upload (it was restarted and lost its state): the blob can be sent again.
 */
function isLost(error: unknown): boolean {
  return error instanceof SvcError && error.code === "upstream_failed" &&
    (error.detail?.status === 404 || error.detail?.passing === true);
}

async function* counted(
  stream: ReadableStream<Uint8Array>,
  report: (bytes: number) => void,
): AsyncGenerator<Uint8Array> {
  let seen = 0;
  for await (const chunk of stream) {
    yield chunk;
    seen += chunk.length;
    report(seen);
  }
}

/** Pushes to a registry; `host` is the host in image names. */
export class RegistrySink implements TransferSink {
  readonly single = false;
  readonly #sink: ImageSink;
  readonly #place: RegistryPlace;
  readonly #host: string;

  constructor(sink: ImageSink, place: RegistryPlace, host: string) {
    this.#sink = sink;
    this.#place = place;
    this.#host = host;
  }

  begin({ root }: Plan): Promise<void> {
    const { digest } = this.#place;
    if (digest === undefined || digest === root.descriptor.digest) return Promise.resolve();
    throw new SvcError(
      "digest_invalid",
      `Cannot push to ${this.#host}/${this.#place.repository}@${digest}: the image has the ` +
        `digest ${root.descriptor.digest}`,
      { help: "name a tag, or leave the digest out" },
    );
  }

  async blob(descriptor: Descriptor, origin: BlobOrigin, call: BlobCall): Promise<Outcome> {
    const { repository } = this.#place;
    const { digest } = descriptor;
    const { signal } = call;
    if (await this.#sink.hasBlob(repository, digest, { signal })) return "exists";
    const from = origin.registry;
    if (from && from.host === this.#host && from.repository !== repository) {
      if (await this.#sink.mountBlob?.(repository, digest, from.repository, { signal })) {
        return "mounted";
      }
    }
    for (let n = 1;; n++) {
      const body = counted(await origin.open(0, signal), call.report);
      try {
        await this.#sink.putBlob(repository, descriptor, ReadableStream.from(body), { signal });
        return "copied";
      } catch (error) {
        signal.throwIfAborted();
        if (n === UPLOADS || !isLost(error)) throw error;
        if (await this.#sink.hasBlob(repository, digest, { signal })) return "copied";
      }
    }
  }

  async finish({ root, children, referrers }: Plan, signal: AbortSignal): Promise<string[]> {
    const { repository, tag } = this.#place;
    const put = ({ descriptor, bytes }: Part, reference: string) =>
      this.#sink.putManifest(repository, descriptor.mediaType, bytes, [reference], { signal });
    for (const part of children) await put(part, part.descriptor.digest);
    // Referrers are pushed before the image becomes visible under its name.
    for (const part of referrers) await put(part, part.descriptor.digest);
    await put(root, tag ?? root.descriptor.digest);
    return [`${this.#host}/${repository}${tag === undefined ? "" : `:${tag}`}`];
  }

  [Symbol.asyncDispose](): Promise<void> {
    return Promise.resolve();
  }
}
