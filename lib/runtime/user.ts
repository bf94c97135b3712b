/** Resolves the `USER` of an image, a spec or an exec against the root's passwd and group. */
import { SvcError } from "../base/errors.ts";
import { readRunning } from "../sys/rooted_elsewhere.ts";

export interface RuntimeUser {
  uid: number;
  gid: number;
  /** Supplementary groups, in the order of /etc/group. */
  additionalGids: number[];
  /** Home directory from passwd; "/" where there is no entry. */
  home: string;
  /** Login name, where passwd has one. */
  name?: string;
}

interface PasswdEntry {
  name: string;
  uid: number;
  gid: number;
  home: string;
}

interface GroupEntry {
  name: string;
  gid: number;
  members: string[];
}

const rows = (text: string) =>
  text.split("\n").map((line) => line.trim()).filter((line) => line !== "" && line[0] !== "#");

function parsePasswd(text: string): PasswdEntry[] {
  return rows(text).flatMap((line) => {
    const [name, , uid, gid, , home] = line.split(":");
    if (!/^\d+$/.test(uid ?? "") || !/^\d+$/.test(gid ?? "")) return [];
    return [{ name, uid: Number(uid), gid: Number(gid), home: home || "/" }];
  });
}

function parseGroup(text: string): GroupEntry[] {
  return rows(text).flatMap((line) => {
    const [name, , gid, members] = line.split(":");
    if (!/^\d+$/.test(gid ?? "")) return [];
    return [{ name, gid: Number(gid), members: (members ?? "").split(",").filter(Boolean) }];
  });
}

/** A number in the range of uid_t, or undefined for a name. */
function number(text: string, whole: string): number | undefined {
  if (!/^\d+$/.test(text)) return undefined;
  const value = Number(text);
  if (value > 0x7fffffff) {
    throw new SvcError("argument_invalid", `Cannot use user ${whole}: ${text} is out of range`);
  }
  return value;
}

/** Bytes of passwd or group, at most. */
const MAX_ACCOUNTS = 4 << 20;

/** The text of passwd or group; "" where the file is missing. */
async function accounts(rootfs: string, path: string): Promise<string> {
  return new TextDecoder().decode(await readRunning(rootfs, path, MAX_ACCOUNTS));
}

/**
 * Resolves "", "name", "uid", "user:group" in any mixture. A number needs no entry (its group is then 0); a
 * name without an entry throws `argument_invalid`. Supplementary groups are those of the user's name, unless a
 * group is given. `groupAdd` (names or numbers) comes on top. A special or oversized file is refused for every
 * user: runtimes would block on it, or read all of it.
 */
export async function resolveUser(
  rootfs: string,
  user: string,
  groupAdd: readonly string[] = [],
): Promise<RuntimeUser> {
  const [passwdText, groupText] = await Promise.all([
    accounts(rootfs, "/etc/passwd"),
    accounts(rootfs, "/etc/group"),
  ]);
  return lookupUser(passwdText, groupText, user, groupAdd);
}

/** {@linkcode resolveUser} on the texts of passwd and group. */
export function lookupUser(
  passwdText: string,
  groupText: string,
  user: string,
  groupAdd: readonly string[] = [],
): RuntimeUser {
  const groups = parseGroup(groupText);
  const groupId = (text: string): number => {
    const gid = groups.find((entry) => entry.name === text)?.gid ?? number(text, user || text);
    if (gid === undefined) {
      throw new SvcError(
        "argument_invalid",
        `Cannot use group ${text}: the image's /etc/group has no such name`,
      );
    }
    return gid;
  };
  const colon = user.indexOf(":");
  const userPart = colon < 0 ? user : user.slice(0, colon);
  const groupPart = colon < 0 ? "" : user.slice(colon + 1);
  const wanted = userPart === "" ? "0" : userPart;
  const numeric = number(wanted, user);
  const entries = parsePasswd(passwdText);
  const entry = entries.find((candidate) => candidate.name === wanted) ??
    entries.find((candidate) => candidate.uid === numeric);
  if (!entry && numeric === undefined) {
    throw new SvcError(
      "argument_invalid",
      `Cannot use user ${wanted}: the image's /etc/passwd has no such name`,
    );
  }
  const gid = groupPart !== "" ? groupId(groupPart) : entry?.gid ?? 0;
  const additional = new Set<number>();
  if (entry && groupPart === "") {
    for (const group of groups) {
      if (group.gid !== gid && group.members.includes(entry.name)) additional.add(group.gid);
    }
  }
  for (const name of groupAdd) additional.add(groupId(name));
  return {
    uid: entry?.uid ?? numeric!,
    gid,
    additionalGids: [...additional],
    home: entry?.home ?? "/",
    name: entry?.name,
  };
}
