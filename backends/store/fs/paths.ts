/** Folders of a filesystem store that are known to survive a crash. */
import { dirname } from "node:path";
import { syncDir } from "../../../lib/base/fs.ts";

/** Folders remembered; beyond this the oldest is forgotten, and checked again on its next use. */
const REMEMBERED = 4096;

/** Creates folders, each made durable in its parent before anyone relies on it. */
export class DurableFolders {
  #known = new Map<string, Promise<void>>();

  /** Concurrent callers share one creation: none goes on before the parent is synced. */
  ensure(path: string): Promise<void> {
    const known = this.#known.get(path);
    if (known) return known;
    const made = this.#create(path);
    this.#known.set(path, made);
    made.catch(() => this.#known.delete(path));
    if (this.#known.size > REMEMBERED) {
      this.#known.delete(this.#known.keys().next().value!);
    }
    return made;
  }

  /** Call it after a folder was removed, or was found missing. */
  forget(path: string): void {
    this.#known.delete(path);
  }

  async #create(path: string): Promise<void> {
    try {
      await Deno.mkdir(path, { mode: 0o755 });
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) {
        this.forget(dirname(path));
        await this.ensure(dirname(path));
        return await this.#create(path);
      }
      if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
    }
    await syncDir(dirname(path));
  }
}
