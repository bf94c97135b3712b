/**
 * Walks from one fid to another by names. Each name is an entry of the folder before; links are not followed.
 */
import { type FileNode } from "../files/node.ts";
import { Fid, SharedNode } from "./fids.ts";
import { MAX_WALK, QID, type Reader, type Writer } from "./messages.ts";
import type { Session } from "./session.ts";
import { ERRNO, FileError, type Later, type NodeKind } from "../files/stat.ts";

const QID_TYPES: Record<NodeKind, number> = {
  file: QID.FILE,
  special: QID.FILE,
  directory: QID.DIR,
  symlink: QID.SYMLINK,
};

export function putQid(
  reply: Writer,
  { kind, id }: Pick<FileNode, "kind" | "id">,
  version = 0,
): void {
  reply.qid({ type: QID_TYPES[kind], version, path: id });
}

/** Calls `then` with the value: at once if it is there already, else when it comes. */
export function after<T>(value: Later<T>, then: (value: T) => Later<void>): Later<void> {
  return value instanceof Promise ? value.then(then) : then(value);
}

export function answerWalk({ fids }: Session, request: Reader, reply: Writer): Later<void> {
  const from = fids.get(request.u32());
  const number = request.u32();
  const count = request.u16();
  if (count > MAX_WALK) throw new FileError(ERRNO.EINVAL, "too many names");
  const names = Array.from({ length: count }, () => request.text());
  const same = fids.all.get(number) === from;
  // Requests that name the new fid wait until the walk is done.
  const target = same ? from : fids.put(number, new Fid());
  const work = (): Later<void> => {
    if (same && from.isOpen) throw new FileError(ERRNO.EBADF, "an open fid does not walk");
    return after(walked(from, names), ({ nodes, end }) => {
      reply.u16(nodes.length);
      for (const node of nodes) putQid(reply, node);
      if (!end) return void (same || fids.delete(number, target));
      const old = target.shared;
      target.shared = end;
      old?.drop();
    });
  };
  const failed = (error: unknown): never => {
    if (!same) fids.delete(number, target);
    throw error;
  };
  if (same) return from.turns.alone(work);
  try {
    const done = target.turns.alone(() => from.turns.together(work));
    return done instanceof Promise ? done.catch(failed) : done;
  } catch (error) {
    failed(error);
  }
}

interface Walked {
  nodes: Pick<FileNode, "kind" | "id">[];
  /** Undefined where a name after the first was missing. */
  end: SharedNode | undefined;
}

/** Fails where the first name is missing; later, the answer has the names that were found. */
function walked(from: Fid, names: readonly string[]): Later<Walked> {
  const nodes: Walked["nodes"] = [];
  const begin = from.shared;
  if (!begin) throw new FileError(ERRNO.EBADF, "the fid is not in use");
  let at = begin.share();
  const give = (next: FileNode) => {
    at.drop();
    at = new SharedNode(next);
    nodes.push({ kind: next.kind, id: next.id });
  };
  const failed = (error: unknown): Walked => {
    at.drop();
    if (nodes.length === 0) throw error;
    return { nodes, end: undefined };
  };
  const step = (index: number): Later<Walked> => {
    for (; index < names.length; index++) {
      const next = at.node.walk(names[index]);
      if (next instanceof Promise) {
        return next.then((node) => {
          give(node);
          return step(index + 1);
        });
      }
      give(next);
    }
    return { nodes, end: at };
  };
  try {
    const result = step(0);
    return result instanceof Promise ? result.catch(failed) : result;
  } catch (error) {
    return failed(error);
  }
}
