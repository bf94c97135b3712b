/** The caller of an attached build as the engine sees it: trees, an archive, secrets and SSH agents. */
import {
  type AttachRequest,
  CONTEXT_EXPORT,
  type FolderExport,
  type Found,
  type ListedEntry,
  type ListEnd,
  type ListingPart,
  type SameParts,
} from "../../api/build_session.ts";
import type { Problem } from "../../api/problem.ts";
import { concat } from "../../base/collect.ts";
import { SvcError } from "../../base/errors.ts";
import type { Kind } from "../../wire/attached/kinds.ts";
import { type Duplex, readableOf, writableOf } from "../../wire/duplex.ts";
import { FileError } from "../../wire/files/stat.ts";
import { LineReader, writeLine } from "../../wire/lines.ts";
import { type OpenFile } from "../../wire/files/node.ts";
import { NinepClient } from "../../wire/ninep/client.ts";
import { RemoteFile } from "../../wire/ninep/remote_file.ts";
import { type Clock, LEAST_PACE, Pace } from "../../wire/pace.ts";
import { PatientStream } from "../../wire/patience.ts";
import type { RemoteEntry, RemoteTree } from "../context/remote.ts";
import type { AgentConnection, AgentSource, SecretSource } from "../inputs.ts";
import { readBulk } from "./bulk.ts";

export interface CallerOptions {
  /** Opens a stream of `kind` to the caller; `fields` are part of the request. */
  open: (kind: Kind, fields?: Record<string, unknown>) => Duplex;
  /** Whether the caller accepts streams of `kind`; absent: it accepts all of them. */
  takes?: (kind: Kind) => boolean;
  /** The authenticated subject, which scopes the identities that the caller gives. */
  subject: string;
  /** Most content bytes of the whole build; beyond them `tooLarge` makes the error. */
  limit?: number;
  tooLarge: (limit: number) => SvcError;
  /** How long the caller may leave a request without any byte of an answer, in milliseconds. */
  patienceMs?: number;
  /** The clock by which the caller's pace is measured. */
  clock?: Clock;
}

/** In milliseconds; as long as a request's body may stand still. */
const PATIENCE_MS = 120_000;

/** Largest listing, in bytes. */
const MAX_LISTING = 256 << 20;
/** Largest secret, in bytes; BuildKit's limit. */
const MAX_SECRET = 500 * 1024;

const KINDS = { f: "file", d: "directory", l: "symlink" } as const;

/**
 * The error for an answer of a hostile or broken caller. It fails the build and is never the server's own
 * failure.
 */
function unreadable(what: string, cause?: unknown): SvcError {
  return new SvcError("context_invalid", `Cannot read from the caller: ${what}`, {
    cause,
    help: "build again; both sides should be of about the same version",
  });
}

/** The error for a problem that the caller reports about its own files. */
function told(problem: Problem): SvcError {
  const text = (value: unknown) => String(value ?? "").slice(0, 2000);
  return new SvcError("context_invalid", text(problem?.detail), { help: text(problem?.help) });
}

export class Caller {
  #options: CallerOptions;
  #files: Promise<NinepClient> | undefined;
  #fileStream: Duplex | undefined;
  #signals = new WeakSet<AbortSignal>();
  #roots = new Map<string, Promise<number>>();
  #contents = 0;
  #listed = 0;
  #pace: Pace;

  constructor(options: CallerOptions) {
    this.#options = options;
    const late = () => unreadable(`almost nothing arrived for ${LEAST_PACE.windowMs / 1000} s`);
    this.#pace = new Pace({ ...LEAST_PACE, late, clock: options.clock });
  }

  /** Bytes of listings, contents and archives received so far. */
  received = (): number => this.#contents + this.#listed;

  /** The tree of the folder that the caller exports under `name`. */
  tree(name: string, { identity, lazy = false }: FolderExport): RemoteTree {
    if (typeof identity !== "string") throw unreadable("an export has no identity");
    return {
      identity: JSON.stringify([this.#options.subject, identity, name === CONTEXT_EXPORT]),
      lazy,
      ...this.#options.takes?.("changes") !== false && {
        changes: (parts: readonly ListingPart[], signal: AbortSignal) =>
          this.#changes(name, parts, signal),
      },
      entries: (signal) => this.#list(name, signal),
      read: (path, size, signal) => this.#read(name, path, size, signal),
      readMany: (files, signal) => this.#readMany(name, files, signal),
      open: (entry, signal) => this.#open(name, entry, signal),
    };
  }

  /** The context, where the caller sends it as an archive. */
  archive(): ReadableStream<Uint8Array> {
    let stream: Duplex | undefined;
    return new ReadableStream<Uint8Array>({
      pull: async (controller) => {
        stream ??= this.#ask("tar");
        const chunk = await stream.read();
        if (!chunk) return controller.close();
        this.#count(chunk.length);
        controller.enqueue(chunk);
      },
      cancel: () => stream?.reset(),
    }, { highWaterMark: 0 });
  }

  secrets(ids: readonly string[] = []): SecretSource {
    return {
      get: async (id, signal) => ids.includes(id) ? await this.#secret(id, signal) : undefined,
    };
  }

  agents(ids: readonly string[] = []): AgentSource {
    return {
      has: (id) => ids.includes(id),
      connect: (id, signal) => this.#agent(id, signal),
    };
  }

  /** Ends the stream for lazy reads. */
  close(): void {
    this.#fileStream?.reset();
  }

  get #patienceMs(): number {
    return this.#options.patienceMs ?? PATIENCE_MS;
  }

  /** Opens a stream whose other end must answer in time. The caller of this method disposes of it. */
  #ask(kind: Kind, fields?: Record<string, unknown>, signal?: AbortSignal): PatientStream {
    signal?.throwIfAborted();
    const ms = this.#patienceMs;
    const late = () => unreadable(`for ${ms / 1000} s it says nothing (${kind})`);
    const patience = { patienceMs: ms, late, pace: this.#pace };
    return new PatientStream(this.#options.open(kind, fields), patience, signal);
  }

  #count(bytes: number): void {
    this.#contents += bytes;
    const { limit, tooLarge } = this.#options;
    if (limit !== undefined && this.#contents > limit) throw tooLarge(limit);
  }

  async *#list(name: string, signal: AbortSignal): AsyncGenerator<RemoteEntry[]> {
    using stream = this.#ask("list", { export: name }, signal);
    for await (const lines of this.#listing(stream)) {
      yield lines.map((line) => {
        if (!Array.isArray(line)) throw unreadable("a listing of no entries");
        return entryOf(line);
      });
    }
  }

  async *#changes(
    name: string,
    parts: readonly ListingPart[],
    signal: AbortSignal,
  ): AsyncGenerator<(RemoteEntry | SameParts)[]> {
    using stream = this.#ask("changes", { export: name }, signal);
    await writeLine(stream, parts);
    for await (const lines of this.#listing(stream)) {
      yield lines.map((line) => Array.isArray(line) ? entryOf(line) : line);
    }
  }

  /** The lines of a listing, without its end mark. */
  async *#listing(stream: Duplex): AsyncGenerator<(ListedEntry | SameParts)[]> {
    const lines = new LineReader(this.#counted(stream), 64 * 1024);
    for (let count = 0;;) {
      const some = await lines.lines<ListedEntry | SameParts | ListEnd>();
      const end = some?.findIndex((line) => !isPart(line)) ?? 0;
      const parts = (end < 0 ? some! : some?.slice(0, end) ?? []) as (ListedEntry | SameParts)[];
      if (parts.length > 0) yield parts;
      count += parts.length;
      if (end < 0) continue;
      const line = some?.[end] as ListEnd | null | undefined;
      if (line && typeof line === "object" && "error" in line) throw told(line.error);
      if (line?.end !== count || some!.length !== end + 1) throw unreadable("a listing is cut off");
      await stream.closeWrite();
      return;
    }
  }

  #counted(stream: Duplex): Duplex {
    return {
      ...bound(stream),
      read: async () => {
        const chunk = await stream.read();
        this.#listed += chunk?.length ?? 0;
        if (this.#listed > MAX_LISTING) throw unreadable("a listing without end");
        return chunk;
      },
    };
  }

  async *#read(
    name: string,
    path: string,
    size: number,
    signal: AbortSignal,
  ): AsyncGenerator<Uint8Array> {
    signal.throwIfAborted();
    this.#endWith(signal);
    try {
      const { files, root } = await this.#root(name);
      for await (const chunk of files.readFile(root, path.split("/"), size)) {
        signal.throwIfAborted();
        this.#count(chunk.length);
        yield chunk;
      }
    } catch (error) {
      if (error instanceof FileError) {
        throw unreadable(`${path} could not be read (error ${error.errno})`, error);
      }
      signal.throwIfAborted();
      throw error;
    }
  }

  async *#readMany(
    name: string,
    files: readonly RemoteEntry[],
    signal: AbortSignal,
  ): AsyncGenerator<Uint8Array[]> {
    using stream = this.#ask("files", { export: name }, signal);
    const onBytes = (bytes: number) => this.#count(bytes);
    yield* readBulk(stream, files, { onBytes, failed: unreadable });
  }

  /**
   * Closes the stream for lazy reads with the build, so that nothing waits for a caller that does not answer.
   * Listens once per signal: there are many files.
   */
  #endWith(signal: AbortSignal): void {
    if (this.#signals.has(signal)) return;
    this.#signals.add(signal);
    signal.addEventListener("abort", () => this.close(), { once: true });
  }

  async #root(name: string): Promise<{ files: NinepClient; root: number }> {
    const files = await (this.#files ??= this.#connect());
    let root = this.#roots.get(name);
    if (!root) this.#roots.set(name, root = files.attach(name));
    return { files, root: await root };
  }

  /**
   * Opens a file for lazy reading. The reading process of the step sees a failure only as an unreadable file.
   */
  async #open(name: string, entry: RemoteEntry, signal: AbortSignal): Promise<OpenFile> {
    signal.throwIfAborted();
    const { files, root } = await this.#root(name);
    const fid = await files.walk(root, entry.path.split("/"));
    try {
      const { size, mtime } = await files.getattr(fid);
      const same = size === entry.size && mtime.s === entry.mtime && mtime.ns === entry.mtimeNs;
      if (!same) throw unreadable(`${entry.path} changed while the build read it`);
      await files.open(fid);
    } catch (error) {
      await files.clunk(fid).catch(() => {/* the next call fails too */});
      throw error;
    }
    const file = new RemoteFile(files, fid);
    return {
      read: async (offset, into) => {
        const wanted = Math.min(into.length, Math.max(0, entry.size - offset));
        const got = await file.read(offset, into.subarray(0, wanted));
        this.#count(got);
        return got;
      },
      close: () => file.close(),
    };
  }

  async #connect(): Promise<NinepClient> {
    this.#fileStream = this.#options.open("9p");
    const patience = { patienceMs: this.#patienceMs, pace: this.#pace };
    return await NinepClient.connect(this.#fileStream, patience);
  }

  /** Opens a stream of `kind` and reads its first line: whether the caller has the secret or agent. */
  async #found(kind: "secret" | "ssh", id: string, signal: AbortSignal) {
    const stream = this.#ask(kind, { id }, signal);
    const lines = new LineReader(stream);
    try {
      const answer = await lines.line<Found>();
      if (typeof answer?.found !== "boolean") throw unreadable(`no answer for ${kind}`);
      if (answer.error) throw told(answer.error);
      return { stream, lines, found: answer.found };
    } catch (error) {
      stream[Symbol.dispose]();
      throw error;
    }
  }

  async #secret(id: string, signal: AbortSignal): Promise<Uint8Array | undefined> {
    const { stream, lines, found } = await this.#found("secret", id, signal);
    try {
      if (!found) return undefined;
      const parts: Uint8Array[] = [];
      let size = 0;
      for (let part = await lines.read(); part; part = await lines.read()) {
        size += part.length;
        if (size > MAX_SECRET) {
          throw unreadable(`secret ${id} has more than ${MAX_SECRET} bytes`);
        }
        parts.push(part);
      }
      return concat(parts);
    } finally {
      await stream.closeWrite().catch(() => {/* the stream is closed */});
      stream[Symbol.dispose]();
    }
  }

  async #agent(id: string, signal: AbortSignal): Promise<AgentConnection> {
    const { stream, lines, found } = await this.#found("ssh", id, signal);
    if (!found) {
      stream[Symbol.dispose]();
      throw unreadable(`there is no SSH agent ${id}`);
    }
    // An agent sends nothing until it is asked, so its silence is not a failure.
    stream.endless();
    return {
      readable: readableOf({ ...bound(stream), read: () => lines.read() }),
      writable: writableOf(stream),
      [Symbol.asyncDispose]: () => Promise.resolve(stream[Symbol.dispose]()),
    };
  }
}

/** The stream's methods as plain functions, for spreading into another object. */
function bound(stream: Duplex): Duplex {
  return {
    read: () => stream.read(),
    write: (bytes) => stream.write(bytes),
    closeWrite: () => stream.closeWrite(),
    reset: () => stream.reset(),
  };
}

function isPart(line: ListedEntry | SameParts | ListEnd | null): boolean {
  return Array.isArray(line) || typeof line === "object" && line !== null && "same" in line;
}

function entryOf(
  [path, kind, mode, size, mtime, mtimeNs, stamp, link]: ListedEntry,
): RemoteEntry {
  return {
    path,
    type: KINDS[kind],
    mode,
    size,
    mtime,
    mtimeNs,
    stamp,
    ...link !== undefined && { link },
  };
}

const RECORD_LIMIT = 1000;

/** Throws `argument_invalid` where the value is not a request of this protocol. */
export function checkRequest(value: unknown): AttachRequest {
  const request = value as Partial<AttachRequest> | undefined | null;
  const list = (ids: unknown) =>
    ids === undefined || Array.isArray(ids) && ids.every((id) => typeof id === "string");
  const folder = (one: unknown) => typeof (one as FolderExport | null)?.identity === "string";
  const context = request?.context;
  const contexts = Object.values(request?.contexts ?? {});
  const known = typeof request === "object" && typeof request?.query === "string" &&
    (context?.kind === "tar" ||
      context?.kind === "folder" && folder(context) && typeof context.dockerfile === "string" &&
        typeof context.ignore === "string") &&
    contexts.every(folder) && contexts.length <= RECORD_LIMIT &&
    list(request.secrets) && list(request.ssh);
  if (known) return request as AttachRequest;
  throw new SvcError("argument_invalid", "Cannot build: the session's request is not readable", {
    help: "build with a client of the server's own version",
  });
}
