/** What the server tells the process that serves a session's mounts, and what that process says. */

/** One mount. */
export interface ServedMount {
  /** Name of the caller's export. */
  name: string;
  /** The folder that it is mounted at, which exists. */
  at: string;
  writable: boolean;
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
