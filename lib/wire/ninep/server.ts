/**
 * A 9P2000.L server over any source of files (lib/wire/files). Answers are sent as they are done, not in the
 * order of the requests. Requests that name the same fid are done in their order, so that a client may send a
 * request that depends on an earlier one without waiting. In a read-only export nodes have no writer, and
 * writing calls fail with EROFS.
 */
import { SvcError } from "../../base/errors.ts";
import type { Duplex } from "../duplex.ts";
import type { Later } from "../files/stat.ts";
import { StreamFrozen } from "../lasting/stream.ts";
import { asFileError, type FileNode } from "../files/node.ts";
import { BLOCK } from "../blocks/protocol.ts";
import { Telling } from "../known/telling.ts";
import { Fids } from "./fids.ts";
import { type Changes, Order } from "./order.ts";
import { answer } from "./requests.ts";
import type { Session } from "./session.ts";
import {
  join,
  MessageReader,
  OWN_VERSION,
  type Reader,
  RLERROR,
  T,
  VERSION,
  violation,
  Writer,
} from "./messages.ts";

/** Requests that change something. */
const CHANGES: ReadonlyMap<number, Changes> = new Map([
  ...[T.LOPEN, T.LCREATE, T.MKDIR, T.SYMLINK, T.MKNOD, T.LINK, T.UNLINKAT, T.RENAMEAT]
    .map((type) => [type, "names"] as const),
  ...[T.SETATTR, T.CLUNK].map((type) => [type, "names"] as const),
  ...[T.WRITE, BLOCK.WRITE, BLOCK.CUT].map((type) => [type, "content"] as const),
]);
/** Bytes of a message, by default at most, and at least. */
const MAX_MESSAGE = 1 << 20;
const MIN_MESSAGE = 4096;
/** Fids that a client may hold at once. Their descriptors have a limit of their own (files/host_tree.ts). */
const MAX_FIDS = 65_536;
/** Requests that are worked on at once, and the bytes of their messages; further ones wait in the stream. */
const MAX_UNDER_WAY = 32;
const MAX_BYTES = 16 << 20;
/** Answers are gathered up to this size. */
const BATCH = 256 * 1024;
/**
 * Milliseconds that answers wait for those of requests under way: a caller's WebSocket sends a second small message
 * only when the first has arrived (Nagle's algorithm), so an answer in two parts would take two round trips.
 */
const HOLD_MS = 1;

export interface ServeOptions {
  /** Called with the number of bytes of each read of a file or folder. */
  onRead?: (bytes: number) => void;
  /** Bytes of a message, at most. */
  maxMessage?: number;
  /** Fids that a client may hold at once. */
  maxFids?: number;
  /** Goes on with what another process served. */
  resumed?: ServedState;
  /** Called when the stream is frozen: the files stay open, and another process goes on with this. */
  onFrozen?: (state: ServedState) => void;
}

/** What a connection is, between two messages. */
export interface ServedState extends Pick<Session, "fids" | "msize" | "own" | "ordered"> {
  /** The first bytes of the next message. */
  rest: Uint8Array;
}

class Connection {
  #session: Session;
  #maxMessage: number;
  /** Requests in work, by tag. */
  #underWay = new Map<number, Promise<void>>();
  #bytes = 0;
  #outgoing: Uint8Array[] = [];
  #unsent = 0;
  #sending: Promise<void> | undefined;
  /** Runs out when held answers are sent. */
  #held: ReturnType<typeof setTimeout> | undefined;
  readonly #order = new Order();
  /** Resolves when a request is done. */
  #done = Promise.withResolvers<void>();
  readonly #rest: Uint8Array<ArrayBuffer>;
  readonly #onFrozen: ServeOptions["onFrozen"];

  constructor(
    readonly stream: Duplex,
    exports: ReadonlyMap<string, FileNode>,
    { onRead, maxMessage = MAX_MESSAGE, maxFids = MAX_FIDS, resumed, onFrozen }: ServeOptions,
  ) {
    const telling = new Telling((news) => {
      if (this.#unsent > BATCH) return false;
      this.#put(news);
      this.#now();
      return true;
    });
    const fresh = { fids: new Fids(maxFids), msize: 0, own: false, ordered: false };
    const { fids, msize, own, ordered } = resumed ?? fresh;
    this.#session = { exports, fids, msize, own, ordered, onRead, telling };
    // The process before knew what it had told of; this one does not.
    if (own) telling.forget();
    this.#maxMessage = maxMessage;
    this.#rest = Uint8Array.from(resumed?.rest ?? []);
    this.#onFrozen = onFrozen;
  }

  async run(): Promise<void> {
    const messages = new MessageReader(this.stream, this.#maxMessage, this.#rest);
    let frozen = false;
    try {
      for (let request = await messages.next(); request; request = await messages.next()) {
        // A version request ends everything before it.
        if (request.type === T.VERSION) await this.#idle();
        this.#take(request);
        if (request.type === T.VERSION) await this.#idle();
        while (this.#underWay.size >= MAX_UNDER_WAY || this.#bytes > MAX_BYTES) {
          await this.#done.promise;
        }
        // Answers to requests that came together are sent together.
        if (this.#unsent > BATCH || !messages.ready && this.#underWay.size === 0) {
          await this.#flush();
        } else if (!messages.ready) this.#soon();
      }
      await this.#idle();
      await this.#flush();
      await this.stream.closeWrite();
    } catch (error) {
      if (!(error instanceof StreamFrozen && this.#onFrozen)) throw error;
      frozen = true;
      await this.#idle();
      await this.#session.telling.end();
      await this.#flush();
      const { fids, msize, own, ordered } = this.#session;
      this.#onFrozen({ fids, msize, own, ordered, rest: messages.rest });
    } finally {
      await this.#idle();
      clearTimeout(this.#held);
      await this.#session.telling.end();
      if (!frozen) await this.#session.fids.clear();
    }
  }

  async #idle(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.allSettled(this.#underWay.values());
  }

  #take(request: Reader): void {
    const { tag, size } = request;
    if (this.#underWay.has(tag)) throw violation("a tag is used twice");
    const result = this.#answer(request);
    if (!(result instanceof Promise)) return this.#put(result);
    this.#bytes += size;
    const done = (reply: Uint8Array) => {
      this.#bytes -= size;
      this.#underWay.delete(tag);
      this.#put(reply);
      this.#done.resolve();
      this.#done = Promise.withResolvers();
      if (this.#underWay.size === 0) this.#now();
      else this.#soon();
    };
    this.#underWay.set(tag, result.then(done));
  }

  #put(reply: Uint8Array): void {
    this.#outgoing.push(reply);
    this.#unsent += reply.length;
  }

  #answer(request: Reader): Later<Uint8Array> {
    const failed = (error: unknown) =>
      new Writer(RLERROR, request.tag).u32(asFileError(error).errno).finish();
    try {
      const reply = new Writer(request.type + 1, request.tag);
      const done = this.#handle(request, reply);
      if (!(done instanceof Promise)) return reply.finish();
      return done.then(() => reply.finish()).catch(failed);
    } catch (error) {
      // An unreadable message has no tag that could be answered.
      if (error instanceof SvcError) throw error;
      return failed(error);
    }
  }

  #handle(request: Reader, reply: Writer): Later<void> {
    switch (request.type) {
      case T.VERSION:
        return this.#version(request, reply);
      case T.FLUSH:
        // The flushed request is answered first.
        return this.#underWay.get(request.u16());
      default:
        if (this.#session.msize === 0) throw violation("no version was agreed on");
        return this.#work(request, reply);
    }
  }

  /** Where the client wishes it, each request waits for the changes that came before it. */
  #work(request: Reader, reply: Writer): Later<void> {
    const changes = this.#session.ordered ? CHANGES.get(request.type) : undefined;
    return this.#order.run(changes ?? "nothing", () => answer(this.#session, request, reply));
  }

  async #version(request: Reader, reply: Writer): Promise<void> {
    const wanted = request.u32();
    const version = request.text();
    await this.#session.telling.end();
    await this.#session.fids.clear();
    const known = version.startsWith(VERSION) && wanted >= MIN_MESSAGE;
    const size = Math.min(wanted, this.#maxMessage);
    this.#session.msize = known ? size : 0;
    this.#session.own = known && version === OWN_VERSION;
    this.#session.ordered = false;
    reply.u32(size).text(!known ? "unknown" : this.#session.own ? OWN_VERSION : VERSION);
  }

  #now(): void {
    // A broken stream is reported by its reader.
    this.#flush().catch(() => {});
  }

  /** Sends when the requests under way are done, or after a moment. */
  #soon(): void {
    if (this.#unsent > BATCH) return this.#now();
    this.#held ??= setTimeout(() => this.#now(), HOLD_MS);
  }

  /** Answers that are made during a write go out with the next write. */
  async #flush(): Promise<void> {
    this.#session.telling.now();
    clearTimeout(this.#held);
    this.#held = undefined;
    if (this.#sending || this.#unsent === 0) return await this.#sending;
    await (this.#sending = this.#send());
  }

  async #send(): Promise<void> {
    try {
      while (this.#unsent > 0) {
        const all = join(this.#outgoing, this.#unsent);
        this.#outgoing = [];
        this.#unsent = 0;
        await this.stream.write(all);
      }
    } finally {
      this.#sending = undefined;
    }
  }
}

/**
 * Serves until the other side ends its direction. Throws `upstream_failed` for anything but 9P. All files are
 * closed by then. The caller closes the nodes, and resets the stream where this throws.
 */
export function serveNinep(
  stream: Duplex,
  exports: ReadonlyMap<string, FileNode>,
  options: ServeOptions = {},
): Promise<void> {
  return new Connection(stream, exports, options).run();
}
