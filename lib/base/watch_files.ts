/** Files that an operator replaces while the server runs: certificates, key sets, lists of keys. */

export interface WatchOptions {
  /** Milliseconds between looks. */
  everyMs?: number;
  /** Told of each change; its failure is the caller's to handle. */
  onChange: () => Promise<void> | void;
}

async function signature(path: string): Promise<string> {
  try {
    // Follows links: a mounted cluster Secret changes by a link's being replaced.
    const { ino, size, mtime, ctime } = await Deno.stat(path);
    return `${ino}:${size}:${mtime?.getTime()}:${ctime?.getTime()}`;
  } catch (error) {
    return error instanceof Error ? error.name : "unreadable";
  }
}

const signatures = async (paths: readonly string[]) =>
  (await Promise.all(paths.map(signature))).join("|");

export interface FileWatch extends Disposable {
  /** Looks now, and resolves when a change has been told. */
  check(): Promise<void>;
}

/**
 * Looks at the files every so often rather than being told by the kernel: that also sees renames over a
 * file, mounts that change and network file systems. Keeps no process alive. A file that comes, goes or
 * cannot be read is a change too. Take it before the files are read: what changes in between is told.
 */
export async function watchFiles(
  paths: readonly string[],
  { everyMs = 1000, onChange }: WatchOptions,
): Promise<FileWatch> {
  let known = await signatures(paths);
  let looking: Promise<void> | undefined;
  const look = async () => {
    const now = await signatures(paths);
    if (now === known) return;
    known = now;
    await onChange();
  };
  const start = () => looking ??= look().finally(() => looking = undefined);
  const timer = setInterval(start, everyMs);
  Deno.unrefTimer(timer);
  return {
    async check() {
      // One that is under way may have looked already.
      await looking;
      await start();
    },
    [Symbol.dispose]: () => clearInterval(timer),
  };
}
