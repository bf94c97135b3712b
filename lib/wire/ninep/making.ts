/** A 9P2000.L server's answers to what makes files, folders and links. */
import { type FileNode, MAX_TARGET, type NodeWriter, writerOf } from "../files/node.ts";
import { ERRNO, FileError, type Later } from "../files/stat.ts";
import { Fid, SharedNode } from "./fids.ts";
import type { Reader, Writer } from "./messages.ts";
import type { Session } from "./session.ts";
import { putQid } from "./walk.ts";

type Answer = (session: Session, request: Reader, reply: Writer) => Later<void>;

export function create(session: Session, request: Reader, reply: Writer): Later<void> {
  const fid = session.fids.get(request.u32());
  const name = request.text();
  const [flags, mode] = [request.u32(), request.u32()];
  const given = givenIn(session, request, 8);
  return fid.turns.alone(async () => {
    const folder = fid.shared;
    const writer = writerOf(fid.node);
    if (fid.isOpen) throw new FileError(ERRNO.EBADF, "it is open already");
    // What was sent without waiting for this one is for the new file, and never for the folder.
    if (given !== undefined) fid.shared = undefined;
    let made: Awaited<ReturnType<typeof writer.create>>;
    try {
      const { create } = numbered(writer, given);
      made = await session.telling.later(() => create(name, flags, mode));
    } catch (error) {
      if (given !== undefined) folder?.drop();
      throw error;
    }
    const { node, file } = made;
    folder?.drop();
    fid.shared = new SharedNode(node);
    fid.file = file;
    putQid(reply, node);
    reply.u32(0);
  });
}

/** The number that a client gives to what it makes; undefined where it gives none. `bytes`: of that and what follows. */
function givenIn({ own, ordered }: Session, request: Reader, bytes: number): bigint | undefined {
  request.u32();
  return own && ordered && request.left >= bytes ? request.u64() : undefined;
}

function numbered(writer: NodeWriter, given: bigint | undefined) {
  if (given !== undefined) {
    if (writer.numbered) return writer.numbered(given);
    throw new FileError(ERRNO.EOPNOTSUPP, "files here have their own numbers");
  }
  return {
    create: writer.create.bind(writer),
    mkdir: writer.mkdir.bind(writer),
  };
}

/** Makes an entry in a folder and answers with its qid. */
function making(
  read: (request: Reader) => (folder: FileNode, name: string) => Later<FileNode>,
): Answer {
  return ({ fids }, request, reply) => {
    const fid = fids.get(request.u32());
    const name = request.text();
    const make = read(request);
    request.u32();
    // A walk to it may follow at once.
    return fid.turns.alone(async () => {
      const node = await make(fid.node, name);
      putQid(reply, node);
      node.close();
    });
  };
}

export function mkdir(session: Session, request: Reader, reply: Writer): Later<void> {
  const { fids } = session;
  const fid = fids.get(request.u32());
  const name = request.text();
  const mode = request.u32();
  const given = givenIn(session, request, 12);
  const target = given === undefined ? undefined : fids.put(request.u32(), new Fid());
  const work = () =>
    fid.turns.alone(async () => {
      const { mkdir } = numbered(writerOf(fid.node), given);
      const node = await session.telling.later(() => mkdir(name, mode));
      putQid(reply, node);
      if (target) target.shared = new SharedNode(node);
      else node.close();
    });
  // Without the folder its fid stays without a file, until the client ends it.
  return target ? target.turns.alone(work) : work();
}

export const symlink = making((request) => {
  const target = request.text();
  return (folder, name) => {
    const writer = writerOf(folder);
    if (target === "") throw new FileError(ERRNO.ENOENT, "a link leads somewhere");
    if (target.length > MAX_TARGET) {
      throw new FileError(ERRNO.ENAMETOOLONG, "the target is too long");
    }
    return writer.symlink(name, target);
  };
});

export const mknod = making((request) => {
  const mode = request.u32();
  request.u32();
  request.u32();
  return (folder, name) => writerOf(folder).mknod(name, mode);
});
