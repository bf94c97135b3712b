/** Named volumes of a host: folders that outlive deployments, filled from the image when first used. */
import { join } from "node:path";
import { SvcError } from "../base/errors.ts";
import { ensureDir, exists, removeTree, temporaryName } from "../base/fs.ts";
import { KeyedMutex } from "../base/mutex.ts";
import { runOk } from "../base/process.ts";

export class NamedVolumes {
  readonly root: string;
  #locks = new KeyedMutex();

  constructor(root: string) {
    this.root = root;
  }

  #path(name: string): string {
    if (!/^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/.test(name)) {
      throw new SvcError("argument_invalid", `Cannot use volume ${name}: not a volume's name`);
    }
    return join(this.root, name);
  }

  /**
   * The volume's folder. A new one is a copy of `seed` (a folder on the host, with owners, modes and
   * attributes), where that exists; a copy that was cut short is never seen.
   */
  ensure(name: string, seed?: string, signal?: AbortSignal): Promise<string> {
    const path = this.#path(name);
    return this.#locks.run(name, async () => {
      const data = join(path, "_data");
      if (await exists(data)) return data;
      await ensureDir(path);
      const temporary = temporaryName(data);
      try {
        const isFolder = seed !== undefined &&
          (await Deno.stat(seed).catch(() => undefined))?.isDirectory;
        if (isFolder) {
          await runOk(`Cannot fill volume ${name}`, "cp", [
            "--archive",
            "--reflink=auto",
            "--no-target-directory",
            seed!,
            temporary,
          ], { signal });
        } else {
          await Deno.mkdir(temporary, { mode: 0o755 });
        }
        await Deno.rename(temporary, data);
      } catch (error) {
        await removeTree(temporary);
        throw error;
      }
      return data;
    });
  }

  async list(): Promise<string[]> {
    if (!await exists(this.root)) return [];
    const entries = await Array.fromAsync(Deno.readDir(this.root));
    return entries.filter((entry) => entry.isDirectory).map((entry) => entry.name).sort();
  }
}
