/** The caller's own files and folders that a deploy session mounts into its workload (lib/api/session.ts). */
import { COHERENCE, type Coherence, isCoherence } from "../base/coherence.ts";
import { posix } from "../base/path.ts";
import { SvcError } from "../base/errors.ts";

export interface CallerMount {
  /** Absolute path in the container, without a slash at its end. */
  target: string;
  kind: "folder" | "file";
  readOnly?: boolean;
  /**
   * The files do not change: the server may keep what it reads. A name of the source that nobody else can know, as
   * 64 hex digits: whoever has it, and is the same user, is served what was kept. Only with `readOnly`.
   */
  cache?: string;
  /** The server answers writes before they are at the caller: the options of coherence that the caller has. */
  async?: readonly Coherence[];
}

/** A secret name of a source, for {@linkcode CallerMount.cache}. */
const CACHE_NAME = /^[0-9a-f]{64}$/;

/** Mounts of one session, at most. */
export const MAX_MOUNTS = 64;
const MAX_TARGET = 4095;

/** The export of the nth mount, as its 9P client attaches to it. */
export const exportOf = (index: number) => String(index);
/** Where the export of a single file has it. */
export const FILE_NAME = "file";

function invalid(why: string): SvcError {
  return new SvcError("argument_invalid", `Cannot mount the caller's files: ${why}`, {
    help: "write --mount SOURCE:TARGET[:ro][,cache][,async], with a target like /data",
  });
}

/** Why a path cannot be the target of a mount; undefined where it can. */
export function targetFault(target: string): string | undefined {
  if (!target.startsWith("/")) return "its target is not absolute";
  if (target.length > MAX_TARGET || target.includes("\0")) return "its target is no path";
  if (posix.normalize(target) !== target || target.endsWith("/")) {
    return "its target is the root, or not written plainly";
  }
  return undefined;
}

/** Throws `argument_invalid` for anything but a list of mounts with different targets. Absent: none. */
export function checkCallerMounts(value: unknown): CallerMount[] {
  if (value === undefined) return [];
  if (!Array.isArray(value) || value.length > MAX_MOUNTS) {
    throw invalid(`expected a list of up to ${MAX_MOUNTS}`);
  }
  const seen = new Set<string>();
  return value.map((one: unknown): CallerMount => {
    const { target, kind, readOnly = false, ...how } = Object(one) as Record<string, unknown>;
    if (typeof target !== "string" || kind !== "folder" && kind !== "file") {
      throw invalid("a mount has a target and a kind");
    }
    if (typeof readOnly !== "boolean") throw invalid("readOnly is true or false");
    const fault = targetFault(target);
    if (fault) throw invalid(`${JSON.stringify(target)}: ${fault}`);
    if (seen.has(target)) throw invalid(`two mounts have the target ${target}`);
    seen.add(target);
    return { target, kind, ...(readOnly && { readOnly }), ...checkHow(how, readOnly) };
  });
}

/** How it is mounted. Throws `argument_invalid`. */
function checkHow(
  { cache, async }: Record<string, unknown>,
  readOnly: boolean,
): Pick<CallerMount, "cache" | "async"> {
  if (cache !== undefined) {
    if (typeof cache !== "string" || !CACHE_NAME.test(cache)) throw invalid("cache is no name");
    if (!readOnly || async !== undefined) throw invalid("with ,cache a mount is read-only");
    return { cache };
  }
  if (async === undefined) return {};
  if (!Array.isArray(async) || async.length > COHERENCE.length || !async.every(isCoherence)) {
    throw invalid(`async is a list of ${COHERENCE.join(", ")}`);
  }
  if (readOnly) throw invalid("with ,async a mount is writable");
  return { async };
}
