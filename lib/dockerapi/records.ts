/** Records in a folder, one JSON file each, all of them in memory. What was saved is on the disk. */
import { ifThere, readJson, writeFileAtomic } from "../base/fs.ts";
import { join } from "../base/path.ts";
import type { ApiBase } from "./base.ts";

export class Records<T> {
  readonly #folder: string;
  readonly #all = new Map<string, T>();

  private constructor(folder: string) {
    this.#folder = folder;
  }

  /** A file that cannot be read is told, and left alone. */
  static async open<T>(api: Pick<ApiBase, "folder" | "warn">, kind: string): Promise<Records<T>> {
    const folder = join(api.folder, kind);
    const records = new Records<T>(folder);
    await Deno.mkdir(folder, { recursive: true, mode: 0o700 });
    for await (const { name, isFile } of Deno.readDir(folder)) {
      if (!isFile || !name.endsWith(".json")) continue;
      const path = join(folder, name);
      try {
        const value = await readJson<T>(path);
        if (value) records.#all.set(decodeURIComponent(name.slice(0, -".json".length)), value);
      } catch (error) {
        api.warn(`${path} cannot be read: ${(error as Error).message}`);
      }
    }
    return records;
  }

  get(key: string): T | undefined {
    return this.#all.get(key);
  }

  values(): T[] {
    return [...this.#all.values()];
  }

  async save(key: string, value: T): Promise<void> {
    this.#all.set(key, value);
    await writeFileAtomic(this.#path(key), JSON.stringify(value), { mode: 0o600 });
  }

  async remove(key: string): Promise<void> {
    this.#all.delete(key);
    await ifThere(Deno.remove(this.#path(key)));
  }

  #path(key: string): string {
    return join(this.#folder, `${encodeURIComponent(key)}.json`);
  }
}
