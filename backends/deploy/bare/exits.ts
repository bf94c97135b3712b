/** How containers ended, by the files of their monitors. */
import { join } from "node:path";
import { ensureDir, exists, removeTree } from "../../../lib/base/fs.ts";
import type { ContainerExit } from "../../../lib/deploy/host/engine.ts";
import { ExitWatch } from "../../../lib/deploy/host/exit_watch.ts";

export class ExitFiles {
  #folders: { exits: string; instances: string };

  constructor(folders: { exits: string; instances: string }) {
    this.#folders = folders;
  }

  /** `onLook` is called for each running container now and then. */
  watch(onLook: (key: string) => Promise<unknown>): ExitWatch {
    return new ExitWatch({
      read: (key) => this.read(key),
      listen: (hint) => this.#listen(hint),
      onLook,
    });
  }

  /** The monitor's file that tells that the container exceeded its memory limit. */
  #oom(key: string): string {
    return join(this.#folders.instances, key, "oom");
  }

  /** The exit that the monitor recorded; undefined where it recorded none. */
  async read(key: string): Promise<ContainerExit | undefined> {
    const path = join(this.#folders.exits, key);
    try {
      // Our own: the monitor's file.
      const text = (await Deno.readTextFile(path)).trim();
      if (!/^\d+$/.test(text)) return undefined;
      const at = (await Deno.stat(path)).mtime ?? new Date();
      return { code: Number(text), at, ...(await exists(this.#oom(key)) && { oom: true }) };
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return undefined;
      throw error;
    }
  }

  /** Call it before another start: the old files would count as the next run's end. */
  async forget(key: string): Promise<void> {
    await removeTree(join(this.#folders.exits, key));
    await removeTree(this.#oom(key));
  }

  #listen(hint: (key: string) => Promise<unknown>): () => void {
    let files: Deno.FsWatcher | undefined;
    let closed = false;
    (async () => {
      await ensureDir(this.#folders.exits, 0o700);
      if (closed) return;
      files = Deno.watchFs(this.#folders.exits, { recursive: false });
      for await (const event of files) {
        for (const path of event.paths) await hint(path.slice(path.lastIndexOf("/") + 1));
      }
    })().catch(() => {/* closed, or broken: the regular look goes on */});
    return () => {
      closed = true;
      files?.close();
    };
  }
}
