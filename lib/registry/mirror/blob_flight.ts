/**
 * One blob on its way from the upstream into the store, and the readers that follow it meanwhile. The upstream
 * is read once, as fast as the store and the spool take the bytes. A slow, late or vanished reader does not
 * change that, and costs one buffer.
 */
import { SvcError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { BlobBody, ByteRange } from "../../oci/image.ts";
import type { Digest } from "../../oci/types.ts";
import type { Spool } from "./spool.ts";

/** Bytes of one read by a follower. */
const PIECE = 256 * 1024;

export interface BlobFlightOptions {
  digest: Digest;
  size: number;
  /** The upstream's client verifies the digest. */
  source: ReadableStream<Uint8Array>;
  /** Held by the flight until it ends. */
  spool: Spool;
  store: (body: ReadableStream<Uint8Array>) => Promise<void>;
  /** Reads the bytes from elsewhere, for readers that the spool cannot serve (any more). */
  rest: (range: ByteRange) => Promise<BlobBody | undefined>;
  log: Logger;
}

type Reader = ReadableStreamDefaultReader<Uint8Array>;
type Outcome = { stored: boolean } | { error: unknown };

export class BlobFlight {
  readonly size: number;
  /** Resolves when the flight has ended; true where the blob is in the store. Never rejects. */
  readonly landed: Promise<boolean>;
  #options: BlobFlightOptions;
  #outcome?: Outcome;
  #pulse = Promise.withResolvers<void>();

  constructor(options: BlobFlightOptions) {
    this.#options = options;
    this.size = options.size;
    this.landed = this.#land();
  }

  /** Bytes that followers may read. */
  get #available(): number {
    const { length } = this.#options.spool;
    // The last byte waits for the digest: a wrong body must not look complete.
    return this.#outcome && "stored" in this.#outcome ? length : Math.min(length, this.size - 1);
  }

  /** Bytes that have arrived. */
  get position(): number {
    return this.#options.spool.length;
  }

  async #land(): Promise<boolean> {
    const { spool, log, digest } = this.#options;
    this.#outcome = await this.#move();
    if ("error" in this.#outcome) {
      log.warn("a blob could not be mirrored", { digest, error: this.#outcome.error });
    }
    this.#wake();
    await spool.release();
    return "stored" in this.#outcome && this.#outcome.stored;
  }

  async #move(): Promise<Outcome> {
    const { source, spool, store, log, digest } = this.#options;
    const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
    const writer = writable.getWriter();
    writer.closed.catch(() => {/* told by the writes */});
    let storeError: unknown;
    let feeding = true;
    const stored = store(readable).then(() => true, (error) => {
      storeError = error;
      return false;
    }).finally(() => {
      feeding = false;
      // A store that ended early must not leave a pending write.
      writer.abort().catch(() => {});
    });
    const reader = source.getReader();
    let spooling = true;
    try {
      // Where the store fails, current readers still get the whole blob from the spool.
      while (feeding || spooling && spool.followed) {
        const { done, value } = await reader.read();
        if (done) break;
        const spooled = spooling && spool.write(value).then(() => this.#wake(), (error) => {
          log.warn("a blob cannot be served before it is stored", { digest, error });
          spooling = false;
        });
        const fed = feeding && writer.write(value).catch(() => {/* `stored` tells */});
        await Promise.all([spooled, fed]);
        // Somebody pushed the blob meanwhile: the fetch can end.
        if (!feeding && await stored) break;
      }
    } catch (error) {
      await writer.abort(error).catch(() => {});
      await stored;
      return { error };
    }
    if (feeding) writer.close().catch(() => {/* `stored` tells */});
    reader.cancel().catch(() => {});
    if (await stored) return { stored: true };
    const { code } = storeError as { code?: string };
    if (code === "digest_invalid" || code === "size_invalid") return { error: storeError };
    log.warn("a mirrored blob could not be stored", { digest, error: storeError });
    return { stored: false };
  }

  #wake(): void {
    const pulse = this.#pulse;
    this.#pulse = Promise.withResolvers();
    pulse.resolve();
  }

  /** A view of the blob or a part of it. It stays readable after the flight has ended. */
  body(range?: ByteRange): BlobBody {
    const start = range?.start ?? 0;
    const end = Math.min(range?.end ?? this.size - 1, this.size - 1) + 1;
    if (range && start >= end) {
      throw new SvcError(
        "range_invalid",
        `Cannot read ${this.#options.digest} from ${start}: it has ${this.size} bytes`,
      );
    }
    return { size: end - start, stream: () => this.#follow(start, end) };
  }

  async #elsewhere(start: number, end: number): Promise<Reader> {
    const { rest, digest } = this.#options;
    const body = await rest({ start, end: end - 1 });
    if (body) return body.stream().getReader();
    throw new SvcError("blob_unknown", `Cannot read on in blob ${digest}: it is gone`);
  }

  #follow(start: number, end: number): ReadableStream<Uint8Array> {
    const { spool, digest } = this.#options;
    let at = start;
    let holding = spool.hold();
    let cancelled = false;
    let elsewhere: Reader | undefined;
    const letGo = async () => {
      if (!holding) return;
      holding = false;
      await spool.release();
    };
    const fromSpool = async (): Promise<Uint8Array> => {
      const piece = new Uint8Array(Math.min(PIECE, end - at, this.#available - at));
      await spool.read(piece, at);
      return piece;
    };
    const fromElsewhere = async (): Promise<Uint8Array> => {
      elsewhere ??= await this.#elsewhere(at, end);
      const { done, value } = await elsewhere.read();
      if (done) throw new SvcError("upstream_failed", `Cannot read blob ${digest}: it ended early`);
      return value;
    };
    /** Undefined: the reader cancelled meanwhile. */
    const next = async (): Promise<Uint8Array | undefined> => {
      while (!cancelled) {
        if (holding && at < this.#available) return await fromSpool();
        const outcome = this.#outcome;
        if (outcome && "error" in outcome) throw outcome.error;
        if (outcome) return await fromElsewhere();
        await this.#pulse.promise;
      }
    };
    return new ReadableStream<Uint8Array>({
      pull: async (controller) => {
        try {
          const piece = at < end ? await next() : undefined;
          if (cancelled) return;
          if (piece) {
            at += piece.length;
            controller.enqueue(piece);
          }
          if (at >= end) {
            await letGo();
            controller.close();
          }
        } catch (error) {
          await letGo();
          throw error;
        }
      },
      cancel: async (reason) => {
        cancelled = true;
        await letGo();
        await elsewhere?.cancel(reason);
      },
    }, { highWaterMark: 0 });
  }
}
