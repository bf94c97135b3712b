/** Byte-range locks over 9P2000.L: a server never waits for a lock; the client has to ask again. */
import { type FileLock, type OpenFile } from "../files/node.ts";
import { LOCK_FLOCK, LOCK_STATUS, LOCK_TYPES, type Reader, type Writer } from "./messages.ts";
import type { Session } from "./session.ts";
import { ERRNO, FileError, type Later } from "../files/stat.ts";

function typeOf(number: number): FileLock["type"] {
  const type = LOCK_TYPES[number];
  if (!type) throw new FileError(ERRNO.EINVAL, "there is no such lock");
  return type;
}

/** Range and owner, the last fields of both messages. */
function rangeOf(request: Reader) {
  const [start, length] = [request.u64(), request.u64()];
  const process = request.u32();
  const client = request.text();
  return { range: { start, length, owner: `${process} ${client}` }, process, client };
}

/** `end`: what follows in the answer. */
export function answerLock(
  { fids, own }: Session,
  request: Reader,
  reply: Writer,
  end?: (file: OpenFile) => Later<void>,
): Later<void> {
  const fid = fids.get(request.u32());
  const type = request.u8();
  const flock = (request.u32() & LOCK_FLOCK) !== 0 && own;
  const { range } = rangeOf(request);
  return fid.turns.together(async () => {
    if (!fid.file?.lock) throw new FileError(ERRNO.EOPNOTSUPP, "it cannot be locked");
    const locked = await fid.file.lock({ type: typeOf(type), flock, ...range });
    reply.u8(locked ? LOCK_STATUS.SUCCESS : LOCK_STATUS.BLOCKED);
    await end?.(fid.file);
  });
}

export function answerGetlock({ fids }: Session, request: Reader, reply: Writer): Later<void> {
  const fid = fids.get(request.u32());
  const type = request.u8();
  const { range, process, client } = rangeOf(request);
  return fid.turns.together(async () => {
    if (!fid.file?.lockInTheWay) throw new FileError(ERRNO.EOPNOTSUPP, "it cannot be locked");
    const found = await fid.file.lockInTheWay({ type: typeOf(type), ...range });
    const { type: held, start, length } = found ?? { type: "none" as const, ...range };
    reply.u8(LOCK_TYPES.indexOf(held)).u64(start).u64(length);
    reply.u32(found ? 0 : process).text(found ? "" : client);
  });
}
