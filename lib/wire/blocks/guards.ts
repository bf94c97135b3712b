/**
 * The caller's end of a mount with `,async`: knows which changes of its files are the mount's own. A file's epoch ends
 * when size or time of change are not what the mount's last write has left, and when a write failed. What the mount
 * has sent in an earlier epoch is refused, all of it: so the file never has a later write without an earlier one, and
 * a change that somebody else made is never mixed with writes that do not know of it.
 */
import { ERRNO, FileError, type Later, type NodeStat } from "../files/stat.ts";
import { FIRST_EPOCH, isGiven } from "../files/given.ts";
import { Turns } from "../ninep/turns.ts";
import { hashOf, type Proof, type Version } from "./protocol.ts";

/** Bytes of one proof, and of those that are compared before others have their turn. */
const MAX_PROVED = 64 * 1024;
const AT_ONCE = 1 << 20;

/** What a guard needs of an open file of this machine. */
export interface GuardedFile {
  readonly id: bigint;
  stat(): NodeStat;
  read(offset: number, into: Uint8Array<ArrayBuffer>): Later<number>;
  write(offset: number, bytes: Uint8Array<ArrayBuffer>): Promise<number>;
  truncate(size: number): Promise<void>;
  sync(dataOnly: boolean): Promise<void>;
}

type Seen = Pick<NodeStat, "size" | "mtime">;

interface Watched {
  epoch: bigint;
  /** As the mount's last call has left it. */
  seen: Seen;
  /** The mount's writes are alone with the file. */
  turns: Turns;
  /** Whoever sits at this machine knows that writes of this epoch's mount are refused. */
  told: boolean;
}

const same = (a: Seen, b: Seen) =>
  a.size === b.size && a.mtime.s === b.mtime.s && a.mtime.ns === b.mtime.ns;

/** Of one export. */
export class Guards {
  readonly #files = new Map<bigint, Watched>();
  #last = FIRST_EPOCH;

  /** `onRefused`: called once for each change that writes did not know of. */
  constructor(private readonly onRefused: () => void) {}

  /** For an open file. */
  of(file: GuardedFile): Guarded {
    const watched = this.#files.get(file.id) ?? this.#watch(file);
    this.#files.set(file.id, watched);
    return new Guarded(this, watched, file);
  }

  #watch(file: GuardedFile): Watched {
    const { size, mtime } = file.stat();
    // The mount that has just made it writes to it before it has heard of it.
    const fresh = isGiven(file.id) && size === 0;
    const epoch = fresh ? FIRST_EPOCH : ++this.#last;
    return { epoch, seen: { size, mtime }, turns: new Turns(), told: false };
  }

  /** Makes a change that the mount has asked for in another way, such as new times. */
  own<R>(id: bigint, stat: () => NodeStat, work: () => Promise<R>): Later<R> {
    const watched = this.#files.get(id);
    if (!watched) return work();
    return watched.turns.alone(async () => {
      this.look(watched, stat());
      try {
        return await work();
      } finally {
        watched.seen = stat();
      }
    });
  }

  /** Begins a new epoch where somebody else has changed the file. */
  look(watched: Watched, now: NodeStat): Version {
    if (!same(watched.seen, now)) this.end(watched, now);
    return { epoch: watched.epoch, size: now.size, mtime: now.mtime };
  }

  /** Ends the epoch: what was sent in it is refused from now on. */
  end(watched: Watched, { size, mtime }: NodeStat, told = false): void {
    Object.assign(watched, { epoch: ++this.#last, seen: { size, mtime }, told });
  }

  refuse(watched: Watched): FileError {
    if (!watched.told) this.onRefused();
    watched.told = true;
    return new FileError(ERRNO.ESTALE, "the file was changed by somebody else");
  }
}

/** An open file of a guarded export. */
export class Guarded {
  constructor(
    private readonly guards: Guards,
    private readonly watched: Watched,
    private readonly file: GuardedFile,
  ) {}

  /** Throws ESTALE where a proof does not hold. Epoch 0: any. */
  look(epoch: bigint, proofs: readonly Proof[]): Later<Version> {
    return this.watched.turns.together(async () => {
      await this.#prove(epoch, proofs);
      return this.#now();
    });
  }

  /** The version is that of before the read: a change during it shows at the next look. */
  read(offset: number, into: Uint8Array<ArrayBuffer>): Later<{ got: number; version: Version }> {
    return this.watched.turns.together(async () => {
      const version = this.#now();
      return { got: await this.file.read(offset, into), version };
    });
  }

  write(
    epoch: bigint,
    offset: number,
    bytes: Uint8Array<ArrayBuffer>,
    proofs: readonly Proof[],
  ): Later<Version> {
    return this.#change(epoch, proofs, async () => {
      if (await this.file.write(offset, bytes) === bytes.length) return;
      throw new FileError(ERRNO.ENOSPC, "only a part was written");
    });
  }

  cut(epoch: bigint, size: number): Later<Version> {
    return this.#change(epoch, [], () => this.file.truncate(size));
  }

  sync(epoch: bigint, dataOnly: boolean, proofs: readonly Proof[]): Later<Version> {
    return this.watched.turns.together(async () => {
      await this.#prove(epoch, proofs);
      await this.file.sync(dataOnly);
      return this.#now();
    });
  }

  #now(): Version {
    return this.guards.look(this.watched, this.file.stat());
  }

  #change(epoch: bigint, proofs: readonly Proof[], work: () => Promise<void>): Later<Version> {
    const watched = this.watched;
    return watched.turns.alone(async () => {
      this.#require(epoch);
      await this.#prove(epoch, proofs);
      this.#require(epoch);
      try {
        await work();
      } catch (error) {
        // What follows it must not be in the file without it.
        this.guards.end(watched, this.file.stat(), true);
        throw error;
      }
      watched.seen = this.file.stat();
      return this.#now();
    });
  }

  #require(epoch: bigint): void {
    if (this.#now().epoch !== epoch) throw this.guards.refuse(this.watched);
  }

  async #prove(epoch: bigint, proofs: readonly Proof[]): Promise<void> {
    let compared = 0;
    for (const { offset, length, hash } of proofs) {
      if (length > MAX_PROVED) throw new FileError(ERRNO.EINVAL, "a proof of too much");
      compared += length;
      if (compared > AT_ONCE) {
        compared = 0;
        await new Promise((resolve) => setImmediate(resolve));
      }
      const bytes = new Uint8Array(length);
      const got = await this.file.read(offset, bytes);
      const found = hashOf(bytes);
      if (got === length && found.every((byte, index) => byte === hash[index])) continue;
      // Nothing else has shown that it was changed.
      if (this.#now().epoch === epoch) this.guards.end(this.watched, this.file.stat());
      throw this.guards.refuse(this.watched);
    }
  }
}
