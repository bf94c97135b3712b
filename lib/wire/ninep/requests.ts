/** A 9P2000.L server's answers to each request. A request is read completely before anything is done. */
import { asksToWrite, type Changes, Listing, readOnly, writerOf } from "../files/node.ts";
import { BLOCK_ANSWERS } from "../blocks/answers.ts";
import { Fid, SharedNode } from "./fids.ts";
import { answerGetlock, answerLock } from "./locks.ts";
import {
  ENTRY_TYPES,
  GETATTR_BASIC,
  READ_HEADER,
  type Reader,
  REMOVE_FOLDER,
  SET,
  T,
  type Writer,
} from "./messages.ts";
import { create, mkdir, mknod, symlink } from "./making.ts";
import type { Session } from "./session.ts";
import { after, answerWalk, putQid } from "./walk.ts";
import { addToXattr, answerXattrCreate, answerXattrWalk, commitXattr } from "./xattrs.ts";
import { ERRNO, FileError, type FileTime, type Later, type NodeStat } from "../files/stat.ts";

type Answer = (session: Session, request: Reader, reply: Writer) => Later<void>;

/** Largest size of a file and largest offset. */
const MAX_SIZE = BigInt(Number.MAX_SAFE_INTEGER);

/** Changes when the file does: clients then drop what they cached. */
function versionOf({ mtime: { s, ns } }: NodeStat): number {
  return (s * 1000 + Math.floor(ns / 1e6)) >>> 0;
}

function sizeOf(value: bigint): number {
  if (value > MAX_SIZE) throw new FileError(ERRNO.EFBIG, "no file has as much");
  return Number(value);
}

function attach({ exports, fids }: Session, request: Reader, reply: Writer): Later<void> {
  const number = request.u32();
  request.u32();
  request.text();
  const node = exports.get(request.text());
  if (!node) throw new FileError(ERRNO.ENOENT, "there is no such export");
  const shared = new SharedNode(node);
  // This share is never dropped: whoever gave the export closes its node.
  shared.share();
  fids.put(number, new Fid(shared));
  putQid(reply, node);
}

function open({ fids }: Session, request: Reader, reply: Writer): Later<void> {
  const fid = fids.get(request.u32());
  const flags = request.u32();
  return fid.turns.alone(() => {
    const { node } = fid;
    if (fid.isOpen) throw new FileError(ERRNO.EBADF, "it is open already");
    const done = () => {
      putQid(reply, node);
      reply.u32(0);
    };
    if (node.kind === "directory") {
      if (asksToWrite(flags)) throw node.writer ? new FileError(ERRNO.EISDIR) : readOnly();
      return after(node.list(), (folder) => {
        fid.folder = new Listing(folder, node.id);
        done();
      });
    }
    if (asksToWrite(flags)) writerOf(node);
    return after(node.open(flags), (file) => {
      fid.file = file;
      done();
    });
  });
}

function link({ fids }: Session, request: Reader): Later<void> {
  const [folder, target] = [fids.get(request.u32()), fids.get(request.u32())];
  const name = request.text();
  return folder.turns.together(() =>
    target.turns.together(() => writerOf(folder.node).link(name, target.node))
  );
}

function unlink({ fids }: Session, request: Reader): Later<void> {
  const fid = fids.get(request.u32());
  const name = request.text();
  const kind = request.u32() & REMOVE_FOLDER ? "folder" : "other";
  return fid.turns.together(() => writerOf(fid.node).remove(name, kind));
}

function rename({ fids }: Session, request: Reader): Later<void> {
  const from = fids.get(request.u32());
  const name = request.text();
  const to = fids.get(request.u32());
  const newName = request.text();
  return from.turns.together(() =>
    to.turns.together(() => writerOf(from.node).rename(name, to.node, newName))
  );
}

function read({ fids, msize, onRead }: Session, request: Reader, reply: Writer): Later<void> {
  const fid = fids.get(request.u32());
  const offset = sizeOf(request.u64());
  const count = Math.min(request.u32(), msize - READ_HEADER);
  return fid.turns.together(() => {
    reply.u32(0);
    const done = (got: number) => {
      reply.shrink(count - got);
      reply.patch32(READ_HEADER - 4, got);
      onRead?.(got);
    };
    if (fid.xattr && "value" in fid.xattr) {
      const part = fid.xattr.value.subarray(offset, offset + count);
      reply.hole(count).set(part);
      return done(part.length);
    }
    if (!fid.file) throw new FileError(ERRNO.EBADF, "it is not open");
    return after(fid.file.read(offset, reply.hole(count)), done);
  });
}

function write({ fids }: Session, request: Reader, reply: Writer): Later<void> {
  const fid = fids.get(request.u32());
  const offset = sizeOf(request.u64());
  const bytes = request.copy(request.u32());
  // One after the other: of a broken connection's writes the first ones are there, and not the last ones.
  return fid.turns.alone(async () => {
    writerOf(fid.node);
    if (fid.xattr) return void reply.u32(addToXattr(fid, offset, bytes));
    if (!fid.file?.write) throw new FileError(ERRNO.EBADF, "it is not open");
    reply.u32(await fid.file.write(offset, bytes));
  });
}

function readdir({ fids, msize, onRead }: Session, request: Reader, reply: Writer): Later<void> {
  const fid = fids.get(request.u32());
  const offset = request.u64();
  const count = Math.min(request.u32(), msize - READ_HEADER);
  return fid.turns.alone(async () => {
    if (!fid.folder) throw new FileError(ERRNO.EBADF, "it is not an open folder");
    reply.u32(0);
    const start = reply.size;
    const enough = await fid.folder.take(offset, ({ name, kind, id, next }) => {
      const before = reply.size;
      putQid(reply, { kind, id });
      reply.u64(next).u8(ENTRY_TYPES[kind]).text(name);
      if (reply.size - start <= count) return true;
      reply.shrink(reply.size - before);
      return false;
    });
    if (!enough) throw new FileError(ERRNO.EINVAL, "no room for an entry");
    reply.patch32(READ_HEADER - 4, reply.size - start);
    onRead?.(reply.size - start);
  });
}

function getattr({ fids }: Session, request: Reader, reply: Writer): Later<void> {
  const fid = fids.get(request.u32());
  return fid.turns.together(() =>
    after(fid.node.stat(), (stat) => {
      const { mode, uid, gid, nlink, size, blocks } = stat;
      reply.u64(GETATTR_BASIC);
      putQid(reply, fid.node, versionOf(stat));
      reply.u32(mode).u32(uid).u32(gid).u64(nlink).u64(0).u64(size).u64(4096).u64(blocks);
      // Times before 1970 are negative, in two's complement as in file systems.
      for (const { s, ns } of [stat.atime, stat.mtime, stat.ctime]) reply.u64(s).u64(ns);
      reply.u64(0).u64(0).u64(0).u64(0);
    })
  );
}

function setattr({ fids }: Session, request: Reader): Later<void> {
  const fid = fids.get(request.u32());
  const valid = request.u32();
  const [mode, uid, gid] = [request.u32(), request.u32(), request.u32()];
  const size = request.u64();
  const time = (): FileTime => ({
    s: Number(BigInt.asIntN(64, request.u64())),
    ns: Number(request.u64()),
  });
  const [atime, mtime] = [time(), time()];
  return fid.turns.alone(async () => {
    const writer = writerOf(fid.node);
    const changes: Changes = {};
    if (valid & SET.MODE) changes.mode = mode & 0o7777;
    if (valid & SET.UID) changes.uid = uid;
    if (valid & SET.GID) changes.gid = gid;
    if (valid & SET.ATIME) changes.atime = valid & SET.ATIME_GIVEN ? checked(atime) : "now";
    if (valid & SET.MTIME) changes.mtime = valid & SET.MTIME_GIVEN ? checked(mtime) : "now";
    if (valid & SET.SIZE) {
      const { file } = fid;
      // A file that is open for writing needs no further permission.
      if (file?.truncate && file.write) await file.truncate(sizeOf(size));
      else changes.size = sizeOf(size);
    }
    await writer.change(changes);
  });
}

function checked(time: FileTime): FileTime {
  if (Number.isSafeInteger(time.s) && time.ns < 1e9) return time;
  throw new FileError(ERRNO.EINVAL, "there is no such time");
}

function readlink({ fids }: Session, request: Reader, reply: Writer): Later<void> {
  const fid = fids.get(request.u32());
  return fid.turns.together(() => after(fid.node.readlink(), (target) => void reply.text(target)));
}

function statfs({ fids }: Session, request: Reader, reply: Writer): Later<void> {
  const fid = fids.get(request.u32());
  return fid.turns.together(async () => {
    const space = await fid.node.space?.();
    const { blockSize = 4096, blocks = 0n, free = 0n, available = 0n } = space ?? {};
    reply.u32(0x01021997).u32(blockSize).u64(blocks).u64(free).u64(available);
    reply.u64(space?.files ?? 0).u64(space?.filesFree ?? 0).u64(0).u32(255);
  });
}

function fsync({ fids }: Session, request: Reader): Later<void> {
  const fid = fids.get(request.u32());
  // Some clients do not send the field that follows.
  const dataOnly = request.left >= 4 && request.u32() !== 0;
  return fid.turns.together(() => fid.file?.sync?.(dataOnly) ?? fid.folder?.folder.sync?.());
}

function clunk({ fids }: Session, request: Reader): Later<void> {
  const number = request.u32();
  const fid = fids.get(number);
  fids.delete(number, fid);
  return fid.turns.alone(async () => {
    try {
      await commitXattr(fid);
    } finally {
      await fid.close();
    }
  });
}

/** A file cannot be removed or renamed by its fid alone: its name may belong to another file by now. */
function byNumber({ node }: Fid): never {
  writerOf(node);
  throw new FileError(ERRNO.EOPNOTSUPP, "a file is removed and renamed by its folder and name");
}

function remove(session: Session, request: Reader): Later<void> {
  const number = request.u32();
  const fid = session.fids.get(number);
  session.fids.delete(number, fid);
  // Remove ends the fid in any case.
  return fid.turns.alone(async () => {
    try {
      byNumber(fid);
    } finally {
      await fid.close();
    }
  });
}

function renameFid({ fids }: Session, request: Reader): Later<void> {
  const fid = fids.get(request.u32());
  return fid.turns.together(() => byNumber(fid));
}

function list({ fids, own, telling }: Session, request: Reader, reply: Writer): Later<void> {
  if (!own) throw new FileError(ERRNO.EOPNOTSUPP, "it is of another version");
  const fid = fids.get(request.u32());
  const tree = request.u32();
  return fid.turns.together(() => telling.list(fid.node, tree, reply));
}

function order(session: Session): void {
  if (!session.own) throw new FileError(ERRNO.EOPNOTSUPP, "it is of another version");
  session.ordered = true;
}

const ANSWERS: Record<number, Answer> = {
  [T.AUTH]: () => {
    throw new FileError(ERRNO.ENOENT, "no authentication is needed");
  },
  [T.ATTACH]: attach,
  [T.WALK]: answerWalk,
  [T.LOPEN]: open,
  [T.LCREATE]: create,
  [T.MKDIR]: mkdir,
  [T.SYMLINK]: symlink,
  [T.MKNOD]: mknod,
  [T.LINK]: link,
  [T.UNLINKAT]: unlink,
  [T.RENAMEAT]: rename,
  [T.READ]: read,
  [T.WRITE]: write,
  [T.READDIR]: readdir,
  [T.GETATTR]: getattr,
  [T.SETATTR]: setattr,
  [T.READLINK]: readlink,
  [T.STATFS]: statfs,
  [T.FSYNC]: fsync,
  [T.XATTRWALK]: answerXattrWalk,
  [T.XATTRCREATE]: answerXattrCreate,
  [T.LOCK]: answerLock,
  [T.GETLOCK]: answerGetlock,
  [T.CLUNK]: clunk,
  [T.REMOVE]: remove,
  [T.RENAME]: renameFid,
  ...BLOCK_ANSWERS,
  [T.LIST]: list,
  [T.ORDER]: order,
};

/** Fills in the reply. An error that it throws is the answer instead. */
export function answer(session: Session, request: Reader, reply: Writer): Later<void> {
  const known = ANSWERS[request.type];
  if (!known) throw new FileError(ERRNO.EOPNOTSUPP, `message ${request.type} is not known`);
  return known(session, request, reply);
}
