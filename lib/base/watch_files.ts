/** Files that an operator replaces while the server runs: certificates, key sets, lists of keys. */

export interface WatchOptions {
  /** Milliseconds between two checks. */
  everyMs?: number;
  /** Called at each change; it has to handle its own failures. */
  onChange: () => Promise<void> | void;
}

async function signature(path: string): Promise<string> {
  try {
    // Follows links: a mounted Kubernetes Secret changes by replacing a link.
    const { ino, size, mtime, ctime } = await Deno.stat(path);
    return `${ino}:${size}:${mtime?.getTime()}:${ctime?.getTime()}`;
  } catch (error) {
    return error instanceof Error ? error.name : "unreadable";
  }
}

const signatures = async (paths: readonly string[]) =>
  (await Promise.all(paths.map(signature))).join("|");

export interface FileWatch extends Disposable {
  /** Checks now; resolves after `onChange` for a change has finished. */
  check(): Promise<void>;
}

/**
 * Checks the files at intervals instead of kernel notifications: that also notices renames over a file,
 * changed mounts, and changes on network file systems. Does not keep the process alive. A file that appears,
 * disappears or becomes unreadable counts as changed. Start watching before reading the files, so that no
 * change in between is missed.
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
      // A running check may have passed the changed file already.
      await looking;
      await start();
    },
    [Symbol.dispose]: () => clearInterval(timer),
  };
}
