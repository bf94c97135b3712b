/**
 * An open file of a mount with `,async`: reads what is kept of it, and writes without waiting. All open files of one
 * file share what is kept (kept_file.ts), and ask by the fid of one of them, the carrier: so the caller does what they
 * ask for in their order. Each wait here is for an answer of the caller's, and the end of the connection answers all
 * of them with an error.
 */
import { type FileLock } from "../files/node.ts";
import { ERRNO, FileError, type Later, type NodeStat } from "../files/stat.ts";
import type { NinepClient } from "../ninep/client.ts";
import type { Writer } from "../ninep/messages.ts";
import { AheadFile } from "../ninep/remote_file.ts";

import type { KeptBlocks } from "./kept_blocks.ts";
import { type Asked, BLOCK_SIZE, type KeptFile, PART, partsOf } from "./kept_file.ts";
import {
  BLOCK,
  MAX_PROOFS,
  type Proof,
  putProofs,
  readVersion,
  type Version,
  VERSION_SIZE,
} from "./protocol.ts";

/** Milliseconds for which what the caller said counts, and after which it is asked again meanwhile. */
const FRESH_MS = 100;
const RENEW_MS = 25;
/** Bytes of one request. */
const MOST = 256 * 1024;
/** Rounds of a read in which something else takes away what was fetched. */
const TRIES = 8;
const PER_BLOCK = BLOCK_SIZE / PART;

const isStale = (error: unknown) => (error as FileError)?.errno === ERRNO.ESTALE;

export class BlockFile extends AheadFile {
  readonly #kept: KeptFile;
  /** The caller has refused a write: no later one may follow, as long as the file is open. */
  #refused = false;
  /** Writes under way. */
  #under = 0;
  #looking: Promise<void> | undefined;

  constructor(
    client: NinepClient,
    fid: number,
    id: bigint,
    override readonly ahead: KeptBlocks,
    writes: boolean,
  ) {
    super(client, fid, id, ahead);
    this.#kept = ahead.keptOf(id);
    this.#kept.open.add(this);
    const idle = this.#kept.carriers.open(fid, writes);
    if (idle !== undefined) client.letGo(idle);
  }

  override begun(made: Promise<void>): void {
    this.#kept.begin();
    // What was sent for it fails too, for a reason that tells nobody anything.
    const first = made.catch((error) => {
      this.failure = { error };
      throw error;
    });
    void this.#pend(0, first);
  }

  get #carrier(): number {
    return this.#kept.carriers.fid;
  }

  protected override tell(): void {
    super.tell();
    if (this.#refused) throw new FileError(ERRNO.ESTALE, "an earlier write was refused");
  }

  /** Another epoch has begun: what is under way is refused. */
  #fail(error: unknown): void {
    if (isStale(error) && !this.failure) this.#refused = true;
    this.failure ??= { error };
    this.#kept.drop();
  }

  #accept(version: Version, asked: Asked): void {
    const { epoch } = this.#kept;
    const accepted = this.#kept.accept(version, asked);
    if (!accepted || epoch === 0n || epoch === version.epoch) return;
    for (const file of this.#kept.open) file.refuse();
  }

  /** Takes the answer to a look that went with the opening. */
  begin(look: Promise<Version>, asked: Asked): void {
    const taken = look.then((version) => this.#accept(version, asked));
    this.#looking ??= taken.catch(() => {/* who needs it asks again */}).finally(() =>
      this.#looking = undefined
    );
  }

  /** An epoch has ended: whoever still writes to it is refused, and writes nothing more to the next one. */
  refuse(): void {
    if (this.#under > 0) this.#refused = true;
  }

  /** Asks whether the file was changed. Whoever asks meanwhile gets the same answer. */
  look(): Promise<void> {
    return this.#looking ??= this.#look().finally(() => this.#looking = undefined);
  }

  async #look(proofs: readonly Proof[] = [], epoch = 0n): Promise<void> {
    const asked = this.#kept.asked();
    const fill = (request: Writer) => putProofs(request.u32(this.#carrier).u64(epoch), proofs);
    this.#accept(await this.client.ask(BLOCK.LOOK, fill, readVersion), asked);
  }

  /** Resolves when what is kept may be served. */
  #fresh(): Later<void> {
    const { valid, age } = this.#kept;
    if (!valid || age > FRESH_MS) return this.look();
    if (age > RENEW_MS && !this.#looking) this.look().catch(() => {/* who needs it asks again */});
  }

  override async read(offset: number, into: Uint8Array<ArrayBuffer>): Promise<number> {
    const kept = this.#kept;
    for (let tried = 0; tried < TRIES; tried++) {
      await this.#fresh();
      const size = Math.max(0, Math.min(into.length, kept.size - offset));
      const { first, end } = partsOf(offset, size);
      const missing = kept.missing(first, end);
      if (missing === undefined) {
        kept.copy(offset, into.subarray(0, size));
        return size;
      }
      await this.#obtain(missing, end);
    }
    return (await this.#ask(offset, into.length, (bytes) => into.set(bytes))).got;
  }

  /** Fetches what is missing of a range of parts, or waits for whoever does. */
  async #obtain(first: number, end: number): Promise<void> {
    const kept = this.#kept;
    const { subfill, readAhead = 0 } = this.ahead.options;
    const from = subfill ? first : first - first % PER_BLOCK;
    const to = subfill ? end : Math.ceil(end / PER_BLOCK) * PER_BLOCK;
    const waits = this.#fetch(from, to);
    if (subfill && readAhead > 0) {
      const range = kept.rangeAhead(first, readAhead);
      if (range && this.ahead.mayFetch()) {
        for (const one of this.#fetch(range.first, range.end)) this.ahead.fetches(one);
      }
    }
    await Promise.all(waits);
  }

  /** Requests for what is missing, and those under way that others have sent. */
  #fetch(from: number, to: number): Promise<void>[] {
    const kept = this.#kept;
    const most = Math.max(1, Math.floor(Math.min(MOST, this.#room) / PART));
    const waits = new Set<Promise<void>>();
    for (let part = from; part < to;) {
      const under = kept.fetching.get(part);
      // Who sent it is told what it failed with; this one asks itself then.
      if (under) waits.add(under.catch(() => {}));
      if (under || kept.knows(part)) {
        part++;
        continue;
      }
      const first = part;
      const wanted = () =>
        part < to && part - first < most && !kept.knows(part) && !kept.fetching.has(part);
      while (wanted()) part++;
      waits.add(this.#fetchRun(first, part));
    }
    return [...waits];
  }

  #fetchRun(first: number, end: number): Promise<void> {
    const { fetching } = this.#kept;
    const fetching1 = this.#ask(first * PART, (end - first) * PART, (bytes, version, asked) => {
      this.#kept.fill(first, bytes, version, asked);
    }).then(() => {}).finally(() => {
      for (let part = first; part < end; part++) {
        if (fetching.get(part) === fetching1) fetching.delete(part);
      }
    });
    fetching1.catch(() => {/* who waits for it is told */});
    for (let part = first; part < end; part++) fetching.set(part, fetching1);
    return fetching1;
  }

  get #room(): number {
    return this.client.readSize - VERSION_SIZE;
  }

  /** Reads at the caller. `take` gets the bytes, which do not stay. */
  async #ask(
    offset: number,
    count: number,
    take: (bytes: Uint8Array, version: Version, asked: Asked) => void,
  ): Promise<{ got: number }> {
    const asked = this.#kept.asked();
    const fill = (request: Writer) => request.u32(this.#carrier).u64(offset).u32(count);
    return await this.client.ask(BLOCK.READ, fill, (reply) => {
      const got = reply.u32();
      if (got > count) throw new FileError(ERRNO.EIO, "more came than was asked for");
      const bytes = reply.raw(got);
      const version = readVersion(reply);
      this.#accept(version, asked);
      take(bytes, version, asked);
      return { got };
    });
  }

  override async write(offset: number, bytes: Uint8Array<ArrayBuffer>): Promise<number> {
    await this.ahead.writes.room(bytes.length);
    for (this.tell(); !this.#kept.valid; this.tell()) await this.look();
    const most = Math.min(MOST, Math.floor(this.client.readSize / 2));
    for (let done = 0; done < bytes.length; done += most) {
      this.#send(offset + done, bytes.subarray(done, done + most));
    }
    return bytes.length;
  }

  /** Takes a write, and sends it with what it builds on. */
  #send(offset: number, bytes: Uint8Array): void {
    const kept = this.#kept;
    const { defer, subhash } = this.ahead.options;
    const { epoch } = kept;
    const proofs = defer ? [] : kept.base(offset, bytes.length, !subhash);
    kept.write(offset, bytes, defer === true);
    void this.#alter(bytes.length, BLOCK.WRITE, (request) => {
      putProofs(request.u32(this.#carrier).u64(epoch).u64(offset), proofs);
      return request.u32(bytes.length).raw(bytes);
    });
  }

  /** Changes the file: what is known of its attributes ends now, and with the answer again. */
  #alter(bytes: number, type: number, fill: (request: Writer) => Writer): Promise<void> {
    const touched = () => this.ahead.touched(this.id);
    touched();
    return this.#pend(bytes, this.#change(type, fill, touched));
  }

  async #change(
    type: number,
    fill: (request: Writer) => Writer,
    heard = () => {},
  ): Promise<void> {
    const asked = this.#kept.asked();
    const version = await this.client.ask(type, fill, (reply) => {
      heard();
      return readVersion(reply);
    });
    this.#accept(version, asked);
  }

  /** Something that later calls by other open files have to wait for. */
  #pend(bytes: number, work: Promise<void>): Promise<void> {
    this.#kept.pending++;
    this.#under++;
    const done = work.catch((error) => this.#fail(error)).finally(() => {
      this.#kept.pending--;
      this.#under--;
    });
    this.ahead.writes.add(this.id, this.#carrier, bytes, done);
    return done;
  }

  override async truncate(size: number): Promise<void> {
    for (this.tell(); !this.#kept.valid; this.tell()) await this.look();
    const { epoch } = this.#kept;
    this.#kept.cut(size);
    await this.#alter(
      0,
      BLOCK.CUT,
      (request) => request.u32(this.#carrier).u64(epoch).u64(size),
    );
    this.tell();
  }

  override async sync(dataOnly: boolean): Promise<void> {
    const { epoch } = this.#kept;
    const proofs = this.ahead.options.defer ? this.#kept.written(!this.ahead.options.subhash) : [];
    while (proofs.length > MAX_PROOFS) {
      void this.#pend(0, this.#look(proofs.splice(0, MAX_PROOFS), epoch));
    }
    await this.#pend(
      0,
      this.#change(
        BLOCK.SYNC,
        (request) => putProofs(request.u32(this.#carrier).u64(epoch).u32(dataOnly ? 1 : 0), proofs),
      ),
    );
    await this.flush();
  }

  /** Who gets a lock sees what was written before, whoever has written it. */
  override async lock(lock: FileLock): Promise<boolean> {
    if (lock.type !== "none") this.#kept.expire();
    const asked = this.#kept.asked();
    return await super.lock(lock, {
      type: BLOCK.LOCK,
      read: (reply) => {
        const status = reply.u8();
        this.#accept(readVersion(reply), asked);
        return status;
      },
    });
  }

  override stat(): Promise<NodeStat> {
    return this.ahead.stat(this.id, () => this.client.getattr(this.fid));
  }

  override async close(): Promise<void> {
    this.#kept.open.delete(this);
    this.ahead.closed(this.id);
    const { stays, idle } = this.#kept.carriers.close(this.fid);
    if (idle !== undefined) this.client.letGo(idle);
    if (!stays) return await super.close();
    // Its fid goes on carrying what others ask for; its lock ends.
    const lock = { type: "none", flock: true, start: 0n, length: 0n, owner: "" } as const;
    if (this.flocked) await super.lock(lock);
  }
}
