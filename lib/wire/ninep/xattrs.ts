/** Extended attributes over 9P2000.L: each is read and written through a fid of its own. */
import { encodeRaw } from "../../base/raw_string.ts";
import { MAX_XATTR, writerOf } from "../files/node.ts";
import { Fid, type SharedNode } from "./fids.ts";
import type { Reader, Writer } from "./messages.ts";
import type { Session } from "./session.ts";
import { ERRNO, FileError, type Later } from "../files/stat.ts";

const none = () => new FileError(ERRNO.EOPNOTSUPP, "there are no attributes");

/** Answers with an attribute's value; without a name with the names of all, each ending with NUL. */
export function answerXattrWalk(
  { fids }: Session,
  request: Reader,
  reply: Writer,
): Later<void> {
  const from = fids.get(request.u32());
  const number = request.u32();
  const name = request.text();
  const target = fids.put(number, new Fid());
  return target.turns.alone(() =>
    from.turns.together(async () => {
      try {
        const { node } = from;
        const value = name === ""
          ? await node.listXattrs?.().then((names) =>
            encodeRaw(names.map((n) => `${n}\0`).join(""))
          )
          : await node.getXattr?.(name);
        if (!value) throw none();
        target.shared = (from.shared as SharedNode).share();
        target.xattr = { value };
        reply.u64(value.length);
      } catch (error) {
        fids.delete(number, target);
        throw error;
      }
    })
  );
}

/** Collects what is written through the fid; the attribute is set when the fid ends. */
export function answerXattrCreate({ fids }: Session, request: Reader): Later<void> {
  const fid = fids.get(request.u32());
  const name = request.text();
  const size = request.u64();
  const flags = request.u32();
  return fid.turns.alone(() => {
    writerOf(fid.node);
    if (fid.isOpen) throw new FileError(ERRNO.EBADF, "it is open already");
    if (size > BigInt(MAX_XATTR)) throw new FileError(ERRNO.ENOSPC, "the value is too long");
    fid.xattr = { name, flags, size: Number(size), parts: [] };
  });
}

export function addToXattr(
  { xattr }: Fid,
  offset: number,
  bytes: Uint8Array<ArrayBuffer>,
): number {
  if (!xattr || "value" in xattr) throw new FileError(ERRNO.EBADF, "it is not open to write");
  const have = xattr.parts.reduce((sum, { length }) => sum + length, 0);
  if (offset !== have || have + bytes.length > xattr.size) {
    throw new FileError(ERRNO.ENOSPC, "more than was told");
  }
  xattr.parts.push(bytes);
  return bytes.length;
}

/** Sets the attribute to the collected value when the fid ends; removes it where the announced size was 0. */
export async function commitXattr({ xattr, shared }: Fid): Promise<void> {
  if (!xattr || "value" in xattr || !shared) return;
  const { name, flags, size, parts } = xattr;
  const writer = writerOf(shared.node);
  if (size === 0 && flags === 0) return await writer.removeXattr(name);
  const value = new Uint8Array(await new Blob(parts).arrayBuffer());
  if (value.length !== size) throw new FileError(ERRNO.EIO, "the value is cut off");
  await writer.setXattr(name, value, flags);
}
