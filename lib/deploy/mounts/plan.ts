/** What the server tells the process that serves a session's mounts, and what that process says. */

import type { FileCacheOptions } from "../../wire/cached/file_cache.ts";
import type { BlockOptions } from "../../wire/blocks/protocol.ts";

/** One mount. */
export interface ServedMount {
  /** Name of the caller's export. */
  name: string;
  /** The folder that it is mounted at, which exists. */
  at: string;
  writable: boolean;
  /** The files do not change: what is read is kept. `owner`: who may find it again. */
  cache?: FileCacheOptions & { owner: string };
  /** Blocks are kept here, and writes are answered before they are at the caller. */
  async?: BlockOptions;
}

/** The word that starts this program as that process. */
export const MOUNT_WORD = "mount-files";

/** A line on the process's standard error; other lines are for the log. */
export type MountLine = { ready: true } | { failed: string };

export function readMountLine(text: string): MountLine | undefined {
  try {
    const { ready, failed } = Object(JSON.parse(text)) as Partial<Record<string, unknown>>;
    if (ready === true) return { ready };
    return typeof failed === "string" ? { failed } : undefined;
  } catch {
    return undefined;
  }
}
