/**
 * Small files that are sent beside a deployment's spec and mounted into each of its instances: the configs and
 * secrets of a Compose project. They are no part of the spec, so that no record and no answer shows what is in
 * them. An apply without them takes them away again.
 */
import { SvcError } from "../base/errors.ts";
import { targetFault } from "./caller_mounts.ts";

export interface DeliveredFile {
  /** Absolute path in the container, written plainly. */
  target: string;
  /** Base64. */
  content: string;
  /** Permissions, without the bits above 0777. */
  mode: number;
  uid: number;
  gid: number;
  /** True: the server keeps it in memory only, so that it is gone after a reboot of the server's machine. */
  secret: boolean;
}

/** Files of one deployment, at most. */
export const MAX_FILES = 128;
/** Bytes of one file, at most: those of a config of docker. */
export const MAX_FILE_BYTES = 1_024_000;
const MAX_ID = 2 ** 32 - 2;

function invalid(why: string): SvcError {
  return new SvcError("argument_invalid", `Cannot read the deployment's files: ${why}`, {
    help: "use `svc compose` of the server's own version",
  });
}

const isBelow = (value: unknown, most: number): value is number =>
  Number.isInteger(value) && value as number >= 0 && value as number <= most;

/** Length in bytes of a text in base64; undefined: it is none. */
function bytesOf(text: string): number | undefined {
  if (text.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(text)) return undefined;
  return text.length / 4 * 3 - (text.match(/=+$/)?.[0].length ?? 0);
}

const FIELDS = ["target", "content", "mode", "uid", "gid", "secret"];

/**
 * Throws `argument_invalid` for anything but a list of files with different targets. Absent: none. No error has
 * anything of a content.
 */
export function checkDeliveredFiles(value: unknown): DeliveredFile[] {
  if (value === undefined) return [];
  if (!Array.isArray(value) || value.length > MAX_FILES) {
    throw invalid(`expected a list of up to ${MAX_FILES}`);
  }
  const seen = new Set<string>();
  return value.map((one: unknown, index): DeliveredFile => {
    const at = `files[${index}]`;
    const file = Object(one) as Record<string, unknown>;
    const { target, content, mode, uid, gid, secret } = file;
    const other = Object.keys(file).find((name) => !FIELDS.includes(name));
    if (other !== undefined) throw invalid(`${at}: a field that is none of ${FIELDS.join(", ")}`);
    if (typeof target !== "string") throw invalid(`${at}.target: expected a path`);
    const fault = targetFault(target);
    if (fault) throw invalid(`${at}: ${JSON.stringify(target)}: ${fault}`);
    if (seen.has(target)) throw invalid(`two files have the target ${target}`);
    seen.add(target);
    const bytes = typeof content === "string" ? bytesOf(content) : undefined;
    if (bytes === undefined) throw invalid(`${at}.content: expected base64`);
    if (bytes > MAX_FILE_BYTES) {
      throw invalid(`${at}: ${target} has ${bytes} bytes, and ${MAX_FILE_BYTES} are allowed`);
    }
    if (!isBelow(mode, 0o777)) throw invalid(`${at}.mode: expected permissions up to 0777`);
    if (!isBelow(uid, MAX_ID) || !isBelow(gid, MAX_ID)) {
      throw invalid(`${at}: uid and gid are numbers of users and groups`);
    }
    if (typeof secret !== "boolean") throw invalid(`${at}.secret: expected true or false`);
    return { target, content: content as string, mode, uid, gid, secret };
  });
}
