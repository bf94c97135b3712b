/** A lock on a file that is written anyway: it leaves no lock file behind, and waiting can be aborted. */
import { sleep } from "../base/sleep.ts";

const PAUSE_MS = 100;

/** Waits until no other process or transfer holds `path` (created if missing). */
export async function lockFile(path: string, signal: AbortSignal): Promise<Disposable> {
  const file = await Deno.open(path, { read: true, write: true, create: true });
  try {
    while (!await file.tryLock(true)) await sleep(PAUSE_MS, signal);
  } catch (error) {
    file.close();
    throw error;
  }
  return { [Symbol.dispose]: () => file.close() };
}
