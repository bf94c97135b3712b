/** A 9P server's answers to the messages of protocol.ts, for files of guarded exports. */
import { ERRNO, FileError, type Later } from "../files/stat.ts";
import { answerLock } from "../ninep/locks.ts";
import { READ_HEADER, type Reader, type Writer } from "../ninep/messages.ts";
import type { Guarded } from "./guards.ts";
import { BLOCK, putVersion, readProofs, readSize, type Version, VERSION_SIZE } from "./protocol.ts";
import type { Session } from "../ninep/session.ts";

type Work = (file: Guarded) => Later<Version>;

/** Does the work in the fid's turn, and answers with the version. */
function answering(
  turn: "alone" | "together",
  read: (request: Reader) => Work,
): (session: Session, request: Reader, reply: Writer) => Later<void> {
  return ({ fids }, request, reply) => {
    const fid = fids.get(request.u32());
    const work = read(request);
    return fid.turns[turn](async () => {
      putVersion(reply, await work(guardedOf(fid)));
    });
  };
}

function guardedOf({ file }: { file?: { guarded?: Guarded } }): Guarded {
  if (file?.guarded) return file.guarded;
  throw new FileError(ERRNO.EOPNOTSUPP, "it is not open, or its export is not guarded");
}

function read({ fids, msize, onRead }: Session, request: Reader, reply: Writer): Later<void> {
  const fid = fids.get(request.u32());
  const offset = readSize(request);
  const count = Math.min(request.u32(), msize - READ_HEADER - VERSION_SIZE);
  return fid.turns.together(async () => {
    const file = guardedOf(fid);
    reply.u32(0);
    const { got, version } = await file.read(offset, reply.hole(count));
    reply.shrink(count - got);
    reply.patch32(READ_HEADER - 4, got);
    putVersion(reply, version);
    onRead?.(got);
  });
}

export const BLOCK_ANSWERS = {
  [BLOCK.LOOK]: answering("together", (request) => {
    const [epoch, proofs] = [request.u64(), readProofs(request)];
    return (file) => file.look(epoch, proofs);
  }),
  [BLOCK.READ]: read,
  // Who has got the lock knows whether what it has kept still counts.
  [BLOCK.LOCK]: (session: Session, request: Reader, reply: Writer) =>
    answerLock(session, request, reply, async (file) => {
      putVersion(reply, await guardedOf({ file }).look(0n, []));
    }),
  [BLOCK.WRITE]: answering("alone", (request) => {
    const [epoch, offset, proofs] = [request.u64(), readSize(request), readProofs(request)];
    const bytes = request.copy(request.u32());
    return (file) => file.write(epoch, offset, bytes, proofs);
  }),
  [BLOCK.SYNC]: answering("together", (request) => {
    const [epoch, dataOnly] = [request.u64(), request.u32() !== 0];
    const proofs = readProofs(request);
    return (file) => file.sync(epoch, dataOnly, proofs);
  }),
  [BLOCK.CUT]: answering("alone", (request) => {
    const [epoch, size] = [request.u64(), readSize(request)];
    return (file) => file.cut(epoch, size);
  }),
};
