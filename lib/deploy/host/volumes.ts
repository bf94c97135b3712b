/** Volumes of a host: folders that are filled from the image. Named volumes outlive deployments. */
import { join } from "node:path";
import { SvcError } from "../../base/errors.ts";
import {
  ensureDir,
  exists,
  readJson,
  removeTree,
  temporaryName,
  writeFileAtomic,
} from "../../base/fs.ts";
import { KeyedMutex } from "../../base/mutex.ts";
import { runOk } from "../../base/process.ts";

/** Undefined where the folder does not exist. */
async function isEmpty(folder: string): Promise<boolean | undefined> {
  try {
    for await (const _ of Deno.readDir(folder)) return false;
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

const copy = (from: string, to: string, signal?: AbortSignal) =>
  runOk(`Cannot fill volume ${to}`, "cp", [
    "--archive",
    "--reflink=auto",
    "--no-target-directory",
    from,
    to,
  ], { signal });

/**
 * Makes a volume's folder where it is missing. A new or empty folder becomes a copy of `seed` (a folder on the
 * host, with owners, modes and attributes), where `seed` exists. A partial copy is never visible in a new
 * folder. A folder with contents is left unchanged.
 */
export async function fillFolder(
  folder: string,
  seed?: string,
  signal?: AbortSignal,
): Promise<void> {
  const empty = await isEmpty(folder);
  const hasSeed = seed !== undefined &&
    (await Deno.stat(seed).catch(() => undefined))?.isDirectory === true;
  if (empty === false || empty && !hasSeed) return;
  const temporary = temporaryName(folder);
  try {
    if (hasSeed) await copy(seed!, temporary, signal);
    else await Deno.mkdir(temporary, { mode: 0o755 });
    if (empty === undefined) return await Deno.rename(temporary, folder);
    // Moved into the existing folder: other workloads may have mounted it.
    for await (const { name } of Deno.readDir(temporary)) {
      await Deno.rename(join(temporary, name), join(folder, name));
    }
    await copy(temporary, folder, signal);
  } finally {
    await removeTree(temporary);
  }
}

type Labels = Record<string, string>;

/** Names of the volume's folder, and of a file beside it. */
const DATA = "_data";
const LABELS = "labels.json";
const GONE = ".gone";
/** No longer than a file's name may be. */
const NAME = /^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,254}$/;

export interface NamedVolume {
  name: string;
  labels: Labels;
  /** RFC 3339; absent where the file system does not tell. */
  createdAt?: string;
}

export class NamedVolumes {
  readonly root: string;
  #locks = new KeyedMutex();

  constructor(root: string) {
    this.root = root;
  }

  #path(name: string): string {
    if (!NAME.test(name)) {
      throw new SvcError("argument_invalid", `Cannot use volume ${name}: not a volume's name`);
    }
    return join(this.root, name);
  }

  /**
   * The volume's folder, filled from `seed` as in {@linkcode fillFolder}. `labels` replace its labels; absent
   * or empty: it keeps them.
   */
  ensure(
    name: string,
    seed?: string,
    { labels = {}, signal }: { labels?: Labels; signal?: AbortSignal } = {},
  ): Promise<string> {
    const path = this.#path(name);
    return this.#locks.run(name, async () => {
      const data = join(path, DATA);
      await ensureDir(path);
      await fillFolder(data, seed, signal);
      if (Object.keys(labels).length > 0) {
        await writeFileAtomic(join(path, LABELS), JSON.stringify(labels), { mode: 0o600 });
      }
      return data;
    });
  }

  async list(): Promise<NamedVolume[]> {
    if (!await exists(this.root)) return [];
    const entries = await Array.fromAsync(Deno.readDir(this.root));
    const names = entries.filter(({ name, isDirectory }) => isDirectory && NAME.test(name))
      .map(({ name }) => name).sort();
    const all = await Promise.all(names.map((name) => this.inspect(name)));
    return all.filter((volume) => volume !== undefined);
  }

  /** Undefined where there is none of that name. */
  async inspect(name: string): Promise<NamedVolume | undefined> {
    if (!NAME.test(name)) return undefined;
    const path = this.#path(name);
    const info = await Deno.lstat(join(path, DATA)).catch(() => undefined);
    if (!info?.isDirectory) return undefined;
    const labels = await readJson<Labels>(join(path, LABELS)) ?? {};
    return { name, labels, ...(info.birthtime && { createdAt: info.birthtime.toISOString() }) };
  }

  /**
   * Removes the volume with its contents; false where there is none of that name. `refuse` throws where it is
   * in use: nobody can begin to use the volume between that and its removal.
   */
  remove(name: string, refuse: () => void): Promise<boolean> {
    if (!NAME.test(name)) return Promise.resolve(false);
    return this.#locks.run(name, async () => {
      const path = this.#path(name);
      if (!await exists(path)) return false;
      refuse();
      // No name of a volume: what a crash leaves of it is removed with the next volume.
      const gone = join(this.root, GONE);
      await ensureDir(gone, 0o700);
      await Deno.rename(path, join(gone, crypto.randomUUID()));
      await removeTree(gone);
      return true;
    });
  }
}
