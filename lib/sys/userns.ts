/** User namespaces (user_namespaces(7)): whether this process is in one, and which ids a person may map. */
import { SvcError } from "../base/errors.ts";
import type { SystemError } from "./errno.ts";

/** The whole range of ids, mapped to itself: what every process outside of a user namespace has. */
const EVERYTHING = /^\s*0\s+0\s+4294967295\s*$/;

let inside: boolean | undefined;

/**
 * True in a user namespace other than the host's: its root may mount and give files away, but holds no
 * power over what belongs to the host (`trusted.` attributes, device nodes, limits). Read once.
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

/** Whether an id is one of those that a uid_map or gid_map has in its first column. */
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

/** Throws `unsupported` where a process cannot be of this user, since the namespace lacks the ids. */
export function checkMapped(attempted: string, uid: number, gid: number): void {
  if (!inUserNamespace()) return;
  const ok = isMapped(readMap("uid") ?? "", uid) && isMapped(readMap("gid") ?? "", gid);
  if (!ok) throw beyond(attempted, uid, gid);
}

/** The error of a call that gives a file away: in a user namespace EINVAL has one meaning. */
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
 * The ranges that a file like /etc/subuid (subuid(5)) gives to a user, by name or by number. Lines that
 * are no ranges are left out.
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
