/**
 * Resumable uploads. The hash is kept while the upload is in memory. After a restart it is computed again from
 * the stored bytes, so that an upload continues from its acknowledged offset.
 */
import { createHash } from "node:crypto";
import { SvcError } from "../base/errors.ts";
import { Mutex } from "../base/mutex.ts";
import type { LentConnection, RequestBody } from "../base/request_body.ts";
import { waitFor } from "../base/wait_for.ts";
import { createDigester, type DigestAlgorithm, type Digester, parseDigest } from "../oci/digest.ts";
import { isRepositoryName } from "../oci/reference.ts";
import type { Digest } from "../oci/types.ts";
import type { Damage } from "./damage.ts";
import { blobKey } from "./keys.ts";
import type { CallOptions, ObjectStore, UploadFile } from "./object_store.ts";
import { pump } from "./pump.ts";
import type { Upload } from "./upload.ts";

/** Uploads that stay open (a file handle and a hash each); others are reopened when they continue. */
const KEPT_OPEN = 128;
/** Milliseconds without a byte after which an append gives way to a newer one: its connection may be dead. */
const STALLED_MS = 5_000;

interface Running {
  abort: AbortController;
  /** When the last bytes arrived, by `performance.now()`. */
  progress: number;
}

/** One upload in memory. Only the holder of `mutex` may use `file`. */
class Session {
  readonly mutex = new Mutex();
  /**
   * The hash of the stored bytes. "intake": the file computes it, as a file with `digest` always does. Undefined:
   * it has to be computed from the bytes.
   */
  digester: Digester | "intake" | undefined;
  running: Running | undefined;
  ended = false;
  users = 0;
  /** When it was used last, by `performance.now()`: a clock that is set ends no upload. */
  touched = performance.now();

  constructor(
    readonly repository: string,
    readonly file: UploadFile,
    readonly algorithm: DigestAlgorithm,
  ) {}
}

/** The upload's id contains a mark of its repository, so that no separate record has to be durable. */
function markOf(repository: string): string {
  return createHash("sha256").update(repository).digest("hex").slice(0, 16);
}

async function digesterOf(
  file: UploadFile,
  algorithm: DigestAlgorithm,
  known?: Digester | "intake",
): Promise<Digester> {
  if (known && known !== "intake" && known.algorithm === algorithm) return known;
  const digester = createDigester(algorithm);
  for await (const chunk of file.read()) digester.update(chunk);
  return digester;
}

interface Receiving {
  signal: AbortSignal;
  limit?: number;
  /** Called when bytes have arrived. */
  moved: () => void;
  /** The file takes the bytes from the connection. Absent: they are read from the body. */
  lent?: LentConnection;
  /** Absent: the file hashes what it stores. */
  hash?: Digester;
}

/** Appends a body to the upload's file. */
async function receive(
  { file, algorithm }: Session,
  body: RequestBody,
  { signal, limit, moved, lent, hash }: Receiving,
): Promise<void> {
  if (lent) return await file.intake!.receive(lent, { signal, limit, moved, algorithm });
  await pump(body, {
    signal,
    limit,
    onChunk: moved,
    write: async (piece) => {
      await file.write(piece);
      hash?.update(piece);
    },
  });
}

export class Uploads {
  #sessions = new Map<string, Promise<Session | undefined>>();

  constructor(
    private readonly objects: Pick<ObjectStore, "uploads">,
    /** Absent: what is stored under a key is never known to be damaged. */
    private readonly damage?: Pick<Damage, "has" | "good">,
    private readonly stalledMs: number = STALLED_MS,
  ) {}

  async start(
    repository: string,
    options: CallOptions & { algorithm?: DigestAlgorithm } = {},
  ): Promise<Upload> {
    if (!isRepositoryName(repository)) {
      throw new SvcError(
        "name_invalid",
        `Cannot start an upload: ${JSON.stringify(repository)} is not a repository name`,
      );
    }
    const id = `${crypto.randomUUID()}-${markOf(repository)}`;
    const file = await this.objects.uploads.create(id, options);
    const session = new Session(repository, file, options.algorithm ?? "sha256");
    if (!file.digest) session.digester = createDigester(session.algorithm);
    this.#sessions.set(id, Promise.resolve(session));
    await this.#shed();
    return this.#handle(session);
  }

  async open(
    repository: string,
    id: string,
    options: CallOptions = {},
  ): Promise<Upload | undefined> {
    if (!id.endsWith(`-${markOf(repository)}`)) return undefined;
    const session = await this.#session(repository, id, options);
    return session && this.#handle(session);
  }

  #session(repository: string, id: string, options: CallOptions): Promise<Session | undefined> {
    const known = this.#sessions.get(id);
    if (known) {
      // Moved to the end: the most recently used session is last.
      this.#sessions.delete(id);
      this.#sessions.set(id, known);
      return known.then((session) =>
        session?.file.current ? this.#renewed(repository, session, options) : session
      );
    }
    const opened = this.objects.uploads.open(id, options).then((file) =>
      file && new Session(repository, file, "sha256")
    );
    this.#sessions.set(id, opened);
    opened.then(
      async (session) => {
        if (session) await this.#shed();
        else this.#sessions.delete(id);
      },
      () => this.#sessions.delete(id),
    );
    return opened;
  }

  /** The session, or a new one where another server has continued the upload meanwhile. */
  async #renewed(
    repository: string,
    session: Session,
    options: CallOptions,
  ): Promise<Session | undefined> {
    const { id } = session.file;
    // A caller that is using the session notices by itself.
    if (session.users > 0 || session.running) return session;
    const current = await session.mutex.run(async () => {
      if (session.ended) return false;
      if (await session.file.current!()) return true;
      this.#end(session);
      await session.file.close();
      return false;
    });
    return current ? session : await this.#session(repository, id, options);
  }

  /** Closes the least recently used idle sessions beyond the limit. */
  async #shed(): Promise<void> {
    for (const [id, opening] of this.#sessions) {
      if (this.#sessions.size <= KEPT_OPEN) return;
      const session = await opening.catch(() => undefined);
      if (!session || session.users > 0 || session.running) continue;
      this.#sessions.delete(id);
      session.ended = true;
      await session.file.close();
    }
  }

  #handle(first: Session): Upload {
    const { repository } = first;
    const { id } = first.file;
    let session = first;
    // A handle may outlive its session in memory.
    const current = async (): Promise<Session> => {
      if (session.ended) {
        const again = await this.#session(repository, id, {});
        if (!again || again.ended) {
          throw new SvcError("blob_upload_unknown", `Cannot go on with upload ${id}: it has ended`);
        }
        session = again;
      }
      session.users++;
      session.touched = performance.now();
      return session;
    };
    const using = async <T>(work: (session: Session) => Promise<T>): Promise<T> => {
      const used = await current();
      try {
        return await work(used);
      } finally {
        used.users--;
      }
    };
    return {
      id,
      repository,
      get offset() {
        return session.file.offset;
      },
      append: (body, options = {}) => using((used) => this.#append(used, body, options)),
      commit: (digest) => using((used) => this.#commit(used, digest)),
      abort: () => using((used) => this.#abort(used)),
    };
  }

  /** The session's lock; an append that holds it without progress is ended. */
  async #acquire(session: Session, signal?: AbortSignal): Promise<Disposable> {
    signal?.throwIfAborted();
    const acquiring = session.mutex.acquire();
    const endStalled = () => {
      const { running } = session;
      if (!running || performance.now() - running.progress <= this.stalledMs) return;
      const why = `Cannot go on with upload ${session.file.id}: a newer request has continued it`;
      running.abort.abort(new SvcError("conflict", why));
    };
    const timer = setInterval(endStalled, this.stalledMs / 10);
    try {
      return await waitFor(acquiring, signal);
    } catch (error) {
      acquiring.then((lock) => lock[Symbol.dispose]());
      throw error;
    } finally {
      clearInterval(timer);
    }
  }

  async #append(
    session: Session,
    body: RequestBody,
    options: CallOptions & { at?: number; limit?: number },
  ): Promise<number> {
    using _held = await this.#acquire(session, options.signal);
    const { file } = session;
    this.#assertOpen(session);
    if (options.at !== undefined && options.at !== file.offset) {
      throw new SvcError(
        "range_invalid",
        `Cannot append at ${options.at}: the upload holds ${file.offset} bytes`,
        { detail: { offset: file.offset } },
      );
    }
    const known = session.digester;
    session.digester = undefined;
    const abort = new AbortController();
    const running = session.running = { abort, progress: performance.now() };
    try {
      const signal = options.signal
        ? AbortSignal.any([options.signal, abort.signal])
        : abort.signal;
      const moved = () => running.progress = performance.now();
      const { limit } = options;
      // The file itself hashes the bytes that it received directly, when the digest is asked for.
      const lent = file.intake && body.takeOver?.();
      const hash = file.digest || lent || file.intake && typeof known !== "object"
        ? undefined
        : await digesterOf(file, session.algorithm, known);
      let failure: { error: unknown } | undefined;
      try {
        await receive(session, body, { signal, limit, moved, lent, hash });
      } catch (error) {
        if (error instanceof SvcError && error.code === "storage_full") {
          // A kept upload would hold space that everyone else now lacks, until it expires.
          this.#end(session);
          // What cannot be dropped now expires.
          await file.abort().catch(() => {});
          throw error;
        }
        failure = { error };
      }
      // Also after another failure: the bytes that arrived are kept, and the hash agrees with them.
      await file.flush();
      session.digester = hash ?? "intake";
      if (failure) throw failure.error;
      return file.offset;
    } finally {
      session.running = undefined;
      session.touched = performance.now();
    }
  }

  #assertOpen(session: Session): void {
    if (session.ended) {
      throw new SvcError(
        "blob_upload_unknown",
        `Cannot go on with upload ${session.file.id}: it has ended`,
      );
    }
  }

  #commit(session: Session, digest: Digest): Promise<{ size: number }> {
    const { algorithm } = parseDigest(digest);
    return session.mutex.run(async () => {
      this.#assertOpen(session);
      const { file } = session;
      const { digester } = session;
      const actual = file.digest
        ? await file.digest()
        : file.intake && typeof digester !== "object"
        ? await file.intake.digest(algorithm)
        : (await digesterOf(file, algorithm, digester)).digest();
      if (actual !== digest) {
        this.#end(session);
        await file.abort();
        throw new SvcError(
          "digest_invalid",
          `Cannot accept blob ${digest}: the ${file.offset} bytes sent have the digest ${actual}`,
          { detail: { digest: actual } },
        );
      }
      const size = file.offset;
      const key = blobKey(digest);
      await file.commit(key, { replace: await this.damage?.has(key) });
      await this.damage?.good(key, size);
      this.#end(session);
      return { size };
    });
  }

  async #abort(session: Session): Promise<void> {
    session.running?.abort.abort(
      new SvcError("blob_upload_unknown", `Cannot go on with upload ${session.file.id}: cancelled`),
    );
    await session.mutex.run(async () => {
      if (session.ended) return;
      this.#end(session);
      await session.file.abort();
    });
  }

  #end(session: Session): void {
    session.ended = true;
    this.#sessions.delete(session.file.id);
  }

  async expire(idleMs: number, options: CallOptions = {}): Promise<number> {
    const before = Date.now() - idleMs;
    let dropped = 0;
    for await (const { id, modified } of this.objects.uploads.list(options)) {
      options.signal?.throwIfAborted();
      if (modified.getTime() > before) continue;
      const session = await this.#sessions.get(id);
      if (session) {
        if (session.users > 0 || performance.now() - session.touched < idleMs) continue;
        await this.#abort(session);
      } else {
        await (await this.objects.uploads.open(id, options))?.abort();
      }
      dropped++;
    }
    return dropped;
  }

  /** Closes all handles; the uploads stay. */
  async close(): Promise<void> {
    for (const opening of [...this.#sessions.values()]) {
      const session = await opening.catch(() => undefined);
      if (!session) continue;
      session.running?.abort.abort(
        new SvcError("unavailable", "Cannot go on with the upload: the server is stopping"),
      );
      await session.mutex.run(async () => {
        if (session.ended) return;
        this.#end(session);
        await session.file.close();
      });
    }
  }
}
