/** A lock between processes, held by the kernel: it is released when its holder ends, in whatever way. */
import { SvcError } from "./errors.ts";

export interface FileLock extends Disposable {
  readonly path: string;
}

/**
 * Takes the lock of `path` (created if missing) or throws `data_dir_locked` naming the holder's process
 * id; never waits. The file stays when the lock is released: removing it would let two servers hold a
 * lock each, on the old file and on the new one.
 */
export async function acquireLock(path: string): Promise<FileLock> {
  const file = await Deno.open(path, { read: true, write: true, create: true, mode: 0o644 });
  try {
    if (!await file.tryLock(true)) {
      const holder = (await Deno.readTextFile(path)).trim();
      throw new SvcError(
        "data_dir_locked",
        `Cannot lock ${path}: ${
          /^\d+$/.test(holder) ? `process ${holder} holds it` : "another process holds it"
        }`,
        { detail: /^\d+$/.test(holder) ? { pid: Number(holder) } : undefined },
      );
    }
    // Written before the file is cut: a file that has its block can be rewritten on a full disk.
    const text = new TextEncoder().encode(`${Deno.pid}\n`);
    await file.write(text);
    await file.truncate(text.length);
  } catch (error) {
    file.close();
    throw error;
  }
  return { path, [Symbol.dispose]: () => file.close() };
}
