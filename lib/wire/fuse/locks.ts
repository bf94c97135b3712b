/** Byte-range locks in the kernel's requests. */
import { sleep } from "../../base/sleep.ts";
import { type FileLock } from "../files/node.ts";
import { Reply, type Request } from "./protocol.ts";
import { ERRNO, FileError } from "../files/stat.ts";

/** Flag of a lock: it is one of flock(2). */
const LK_FLOCK = 1;
const TYPES = ["read", "write", "none"] as const;
/** The last byte of a range that has no end. */
const WHOLE = (1n << 63n) - 1n;
/** Milliseconds between two attempts to get a lock: first and longest; doubled in between. */
const POLL_MS = [5, 200] as const;

/**
 * Tries a lock again and again, as nothing reports when it becomes free. Throws EINTR when the signal aborts.
 */
export async function untilLocked(
  lock: () => Promise<boolean>,
  signal: AbortSignal,
): Promise<void> {
  const [first, last] = POLL_MS;
  for (let ms: number = first; !await lock(); ms = Math.min(ms * 2, last)) {
    await sleep(ms, signal).catch(() => {
      throw new FileError(ERRNO.EINTR);
    });
  }
}

/** The reply with the conflicting lock, if there is one. */
export function lockReply(lock: FileLock, found: FileLock | undefined): Reply {
  const { type, start, length } = found ?? { ...lock, type: "none" as const };
  const reply = new Reply(24).u64(0, start);
  reply.u64(8, length === 0n ? WHOLE : start + length - 1n);
  return reply.u32(16, TYPES.indexOf(type));
}

/** A process as owner, by the kernel's number for it. */
export const ownerOf = (owner: bigint) => owner.toString(16);

/** The lock that a request asks for. */
export function lockOf(request: Request): FileLock {
  const [start, end] = [request.u64(16), request.u64(24)];
  const flock = (request.u32(40) & LK_FLOCK) !== 0;
  const type = TYPES[request.u32(32)];
  if (!type) throw new FileError(ERRNO.EINVAL);
  return {
    type,
    start,
    length: end >= WHOLE ? 0n : end - start + 1n,
    owner: ownerOf(request.u64(8)),
    ...flock && { flock },
  };
}
