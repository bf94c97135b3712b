/** Open files of a 9P server, and what nodes and open files ask for in the same way. */
import { type Changes, type FileLock, OPEN, type OpenFile } from "../files/node.ts";
import type { NinepClient } from "./client.ts";
import {
  LOCK_FLOCK,
  LOCK_STATUS,
  LOCK_TYPES,
  type Reader,
  SET,
  T,
  type Writer,
} from "./messages.ts";
import { PendingWrites } from "./pending_writes.ts";
import { ReadAhead, ReadAheads, WITH_OPEN } from "./read_ahead.ts";
import { ERRNO, FileError, type FileTime, type NodeStat } from "../files/stat.ts";

/** Files and folders whose failures are remembered; all are told of in the log. */
const MOST_FAILURES = 10_000;

/** How a lock is asked for. */
export interface LockMessage {
  type: number;
  /** Reads the answer. Returns its status. */
  read: (reply: Reader) => number;
}
const LOCK: LockMessage = { type: T.LOCK, read: (reply) => reply.u8() };

/** A file that is being opened. */
export interface Opening {
  /** Sends what goes with the opening, by the fid that is being opened. */
  follow(fid: number): void;
  /** The open file, once its fid is open. */
  file(fid: number, id: bigint): AheadFile;
}

/** What the files of a mount share that reads ahead and does not wait for its writes. */
export class Ahead {
  /** Files and folders are made without waiting, where the caller does everything in its order. */
  readonly begins: boolean = false;
  readonly writes = new PendingWrites();
  readonly reads = new ReadAheads();
  /** Called when a file is about to be changed, and when the answer comes, before what comes after it. */
  touched: (id: bigint) => void = () => {};

  /** The size of a file, as far as it is known here with all that was written. */
  sizeOf(_id: bigint): number | undefined {
    return undefined;
  }

  /** Of calls that nobody waited for, and that nobody was told of yet, by the file or folder. */
  readonly failures = new Map<bigint, unknown>();

  /** A call for this file or folder has failed that nobody waits for. */
  failed(id: bigint, error: unknown): void {
    if (this.failures.size < MOST_FAILURES) this.failures.set(id, error);
    this.onFailure(error);
  }

  /** Told of each such failure. */
  onFailure: (error: unknown) => void = () => {};

  /** Throws what a call for this file or folder has failed with that nobody waited for, once. */
  tell(id: bigint): void {
    const failure = this.failures.get(id);
    this.failures.delete(id);
    if (failure) throw failure;
  }

  /** A write to the file `id` by an open fid of it was sent. */
  sent(id: bigint, fid: number, bytes: number, written: Promise<void>): void {
    this.touched(id);
    this.writes.add(id, fid, bytes, written);
    this.changed(id);
  }

  /** The flags to open a file with. */
  flags(flags: number): number {
    return flags;
  }

  /** The file is not as it was read. `resized`: nor is its size what it was. */
  changed(id: bigint, _resized = false): void {
    this.reads.changed(id);
  }

  /** The attributes of a file, which `ask` asks for. */
  async stat(id: bigint, ask: () => Promise<NodeStat>): Promise<NodeStat> {
    await this.writes.settled(id);
    return await ask();
  }

  /** Names or attributes are being changed, or were. */
  altered(): void {}

  /** `id`: undefined for a file that is made. */
  opening(client: NinepClient, { id, flags = 0 }: { id?: bigint; flags?: number }): Opening {
    const reads = id !== undefined && (flags & OPEN.ACCESS) !== OPEN.WRONLY &&
      !(flags & OPEN.TRUNC);
    let first: Promise<Uint8Array> | undefined;
    return {
      follow: (fid) => {
        if (reads && client.inOrder) first = client.read(fid, 0, WITH_OPEN);
        first?.catch(() => {/* who reads asks again */});
      },
      file: (fid, id) => new AheadFile(client, fid, id, this, first),
    };
  }
}

/** Reads from an open fid until `into` is full, or the file ends. */
export async function readAll(
  client: NinepClient,
  fid: number,
  offset: number,
  into: Uint8Array,
): Promise<number> {
  let have = 0;
  while (have < into.length) {
    const count = Math.min(into.length - have, client.readSize);
    const part = await client.read(fid, offset + have, count);
    into.set(part, have);
    have += part.length;
    // Our server gives less than was asked for only at the end; another one may stop anywhere.
    if (part.length === 0 || client.inOrder && part.length < count) break;
  }
  return have;
}

/** `heard`: called when an answer comes. */
export async function writeAll(
  client: NinepClient,
  fid: number,
  offset: number,
  bytes: Uint8Array,
  heard?: () => void,
): Promise<number> {
  let done = 0;
  while (done < bytes.length) {
    const part = await client.write(fid, offset + done, bytes.subarray(done), heard);
    if (part === 0) break;
    done += part;
  }
  return done;
}

export function sync(client: NinepClient, fid: number, dataOnly: boolean): Promise<void> {
  return client.ask(T.FSYNC, (request) => request.u32(fid).u32(dataOnly ? 1 : 0), () => {});
}

export function change(
  client: NinepClient,
  fid: number,
  changes: Changes,
  heard = () => {},
): Promise<void> {
  const { mode, uid, gid, size, atime, mtime } = changes;
  const given = (bit: number, value: unknown) => value === undefined ? 0 : bit;
  const timed = (bit: number, set: number, time?: FileTime | "now") =>
    given(bit, time) | (typeof time === "object" ? set : 0);
  const valid = given(SET.MODE, mode) | given(SET.UID, uid) | given(SET.GID, gid) |
    given(SET.SIZE, size) | timed(SET.ATIME, SET.ATIME_GIVEN, atime) |
    timed(SET.MTIME, SET.MTIME_GIVEN, mtime);
  const fill = (request: Writer) => {
    request.u32(fid).u32(valid).u32(mode ?? 0).u32(uid ?? 0).u32(gid ?? 0).u64(size ?? 0);
    for (const time of [atime, mtime]) {
      const { s, ns } = typeof time === "object" ? time : { s: 0, ns: 0 };
      request.u64(s).u64(ns);
    }
    return request;
  };
  return client.ask(T.SETATTR, fill, heard);
}

/** An open file whose every call waits for its answer. */
export class RemoteFile implements OpenFile {
  constructor(readonly client: NinepClient, readonly fid: number) {}

  read(offset: number, into: Uint8Array<ArrayBuffer>): Promise<number> {
    return readAll(this.client, this.fid, offset, into);
  }

  write(offset: number, bytes: Uint8Array<ArrayBuffer>): Promise<number> {
    return writeAll(this.client, this.fid, offset, bytes);
  }

  stat(): Promise<NodeStat> {
    return this.client.getattr(this.fid);
  }

  truncate(size: number): Promise<void> {
    return change(this.client, this.fid, { size });
  }

  sync(dataOnly: boolean): Promise<void> {
    return sync(this.client, this.fid, dataOnly);
  }

  /** Throws ENOSYS for one of flock(2) that the other side does not know. */
  async lock(lock: FileLock, { type, read }: LockMessage = LOCK): Promise<boolean> {
    if (lock.flock && !this.client.own) throw new FileError(ERRNO.ENOSYS, "flock");
    const fill = (request: Writer) => {
      request.u32(this.fid).u8(LOCK_TYPES.indexOf(lock.type)).u32(lock.flock ? LOCK_FLOCK : 0);
      return request.u64(lock.start).u64(lock.length).u32(0).text(lock.owner);
    };
    const status = await this.client.ask(type, fill, read);
    if (status === LOCK_STATUS.SUCCESS) return true;
    if (status === LOCK_STATUS.BLOCKED) return false;
    throw new FileError(ERRNO.EIO, "it was not locked");
  }

  async lockInTheWay(lock: FileLock): Promise<FileLock | undefined> {
    const fill = (request: Writer) => {
      request.u32(this.fid).u8(LOCK_TYPES.indexOf(lock.type));
      return request.u64(lock.start).u64(lock.length).u32(0).text(lock.owner);
    };
    const found = await this.client.ask(T.GETLOCK, fill, (reply) => {
      const type = LOCK_TYPES[reply.u8()] ?? "none";
      const [start, length] = [reply.u64(), reply.u64()];
      reply.u32();
      return { type, start, length, owner: reply.text() };
    });
    return found.type === "none" ? undefined : found;
  }

  close(): Promise<void> {
    return this.client.clunk(this.fid);
  }
}

/**
 * An open file that reads ahead, and whose writes are sent and not waited for: `flush` and `sync` wait, and throw
 * what a write has failed with. Every call sees the writes before it, by whichever open file they were made; the
 * server does what names a fid in its order, so calls by this file's own fid need not wait for its writes.
 */
export class AheadFile extends RemoteFile {
  readonly #reads: ReadAhead;
  protected flocked = false;
  /** Of a write that nobody was told of. */
  protected failure: { error: unknown } | undefined;

  /** `first`: the file's first bytes, where they were asked for together with its opening. */
  constructor(
    client: NinepClient,
    fid: number,
    readonly id: bigint,
    readonly ahead: Ahead,
    first?: Promise<Uint8Array>,
  ) {
    super(client, fid);
    this.#reads = new ReadAhead(ahead.reads, id, async (offset, size) => {
      const bytes = new Uint8Array(size);
      return bytes.subarray(0, await readAll(client, fid, offset, bytes));
    });
    if (first) this.#reads.begin(first);
  }

  #others() {
    return this.ahead.writes.settled(this.id, this.fid);
  }

  protected tell(): void {
    const { failure } = this;
    this.failure = undefined;
    if (failure) throw failure.error;
    this.ahead.tell(this.id);
  }

  /** It is being made: whoever waits for its writes waits for that, and is told where it fails. */
  begun(made: Promise<void>): void {
    const told = made.catch((error) => void (this.failure = { error }));
    this.ahead.writes.add(this.id, this.fid, 0, told);
  }

  override async read(offset: number, into: Uint8Array<ArrayBuffer>): Promise<number> {
    await this.#others();
    return await this.#reads.read(offset, into);
  }

  override async write(offset: number, bytes: Uint8Array<ArrayBuffer>): Promise<number> {
    this.tell();
    await this.#others();
    await this.ahead.writes.room(bytes.length);
    const touched = () => this.ahead.touched(this.id);
    const written = writeAll(this.client, this.fid, offset, bytes, touched).then((done) => {
      if (done < bytes.length) throw new FileError(ERRNO.ENOSPC, "only a part was written");
    });
    const told = written.catch((error) => void (this.failure ??= { error }));
    this.ahead.sent(this.id, this.fid, bytes.length, told);
    return bytes.length;
  }

  async flush(): Promise<void> {
    await this.ahead.writes.settled(this.id);
    this.tell();
  }

  override async stat(): Promise<NodeStat> {
    await this.#others();
    return await super.stat();
  }

  override async truncate(size: number): Promise<void> {
    await this.#others();
    const touched = () => this.ahead.touched(this.id);
    touched();
    await change(this.client, this.fid, { size }, touched);
    this.ahead.changed(this.id);
  }

  override async sync(dataOnly: boolean): Promise<void> {
    await this.#others();
    await super.sync(dataOnly);
    await this.flush();
  }

  /** Who gets a lock that was given back sees what was written under it. */
  override async lock(lock: FileLock, message?: LockMessage): Promise<boolean> {
    await this.ahead.writes.settled(this.id);
    this.flocked ||= lock.flock === true;
    const locked = await super.lock(lock, message);
    this.ahead.reads.changed(this.id);
    return locked;
  }

  override close(): Promise<void> {
    this.#reads.close();
    // Others wait for its lock.
    if (this.flocked) return super.close();
    this.client.letGo(this.fid);
    return Promise.resolve();
  }
}
