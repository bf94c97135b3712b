/** User namespaces (user_namespaces(7)): whether this process is in one, and which ids a person may map. */
import { SvcError } from "../base/errors.ts";
import type { SystemError } from "./errno.ts";

/** Map of all ids to themselves: what every process outside a user namespace has. */
const EVERYTHING = /^\s*0\s+0\s+4294967295\s*$/;

let inside: boolean | undefined;

/**
 * True in a user namespace other than the host's: root there may mount and change owners, but has no power
 * over what belongs to the host (`trusted.` attributes, device nodes, limits). Read once.
 */
export function inUserNamespace(): boolean {
  return inside ??= Deno.build.os === "linux" &&
    !EVERYTHING.test(readMap("uid") ?? "0 0 4294967295");
}

function readMap(kind: "uid" | "gid"): string | undefined {
  try {
    return Deno.readTextFileSync(`/proc/self/${kind}_map`);
  } catch {
    return undefined; // a kernel without user namespaces has no such file
  }
}

/** True where the first column of a uid_map or gid_map contains the id. */
export function isMapped(map: string, id: number): boolean {
  return map.split("\n").some((line) => {
    const [first, , count] = line.trim().split(/\s+/).map(Number);
    return id >= first && id < first + count;
  });
}

const beyond = (attempted: string, uid: number, gid: number, cause?: unknown) =>
  new SvcError(
    "unsupported",
    `${attempted} ${uid}:${gid}: this user namespace has no such ids`,
    {
      cause,
      help:
        "give the server's user larger ranges in /etc/subuid and /etc/subgid, and start it again",
    },
  );

/** Throws `unsupported` where the user namespace lacks the ids of that user. */
export function checkMapped(attempted: string, uid: number, gid: number): void {
  if (!inUserNamespace()) return;
  const ok = isMapped(readMap("uid") ?? "", uid) && isMapped(readMap("gid") ?? "", gid);
  if (!ok) throw beyond(attempted, uid, gid);
}

/** The error of a failed change of owner: in a user namespace EINVAL means unmapped ids. */
export function ownerError(error: SystemError, uid: number, gid: number): Error {
  if (error.code !== "EINVAL" || !inUserNamespace()) return error;
  return beyond(`Cannot give ${error.path} to`, uid, gid, error);
}

/** `count` ids of the host from `start` on. */
export interface IdRange {
  start: number;
  count: number;
}

/**
 * The id ranges of a user, given by name or number, in a file like /etc/subuid (subuid(5)). Malformed lines
 * are left out.
 */
export function subordinateIds(text: string, user: { name?: string; uid: number }): IdRange[] {
  const found: IdRange[] = [];
  for (const line of text.split("\n")) {
    const [owner, start, count, ...rest] = line.trim().split(":");
    if (rest.length > 0 || (owner !== user.name && owner !== String(user.uid))) continue;
    if (!/^\d+$/.test(start ?? "") || !/^[1-9]\d*$/.test(count ?? "")) continue;
    found.push({ start: Number(start), count: Number(count) });
  }
  return found;
}

/**
 * Arguments of newuidmap(1) and newgidmap(1) after the process id: the caller's own id becomes 0, its
 * ranges follow from 1 on without a gap.
 */
export function idMapping(own: number, ranges: readonly IdRange[]): string[] {
  const words = [0, own, 1];
  let next = 1;
  for (const { start, count } of ranges) {
    words.push(next, start, count);
    next += count;
  }
  return words.map(String);
}
