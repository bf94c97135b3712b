/**
 * Files that callers have sent with deployments, as the server keeps them for the workloads' mounts: secrets in
 * memory, where a reboot ends them, and others in the data directory. Only root (or the server's user) enters the
 * folders; inside a workload its mounts show the files with the modes and owners that were asked for.
 *
 * `<root>/<deployment>/<set>/<index>`: a set has a name of its own, so that changed files replace the instances,
 * and an unchanged set is found again and changes nothing.
 */
import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import { statfs } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { DeliveredFile } from "../../api/delivered_files.ts";
import { asSvcError, systemCode } from "../../base/errors.ts";
import { ensureDir, namesIn, removeTree } from "../../base/fs.ts";
import { mount, MS, unmount } from "../../sys/mount.ts";
import { isMounted } from "../../sys/mountinfo.ts";

/** Bytes of a tmpfs that has to be made. */
const SIZE = "64m";
const FLAGS = MS.NOSUID | MS.NODEV | MS.NOEXEC;
/** linux/magic.h: file systems without a disk. */
const IN_MEMORY = [0x01021994, 0x858458f6];

async function isInMemory(folder: string): Promise<boolean> {
  try {
    return IN_MEMORY.includes(Number((await statfs(folder)).type));
  } catch (error) {
    if (systemCode(error) !== "ENOENT" || dirname(folder) === folder) throw error;
    return await isInMemory(dirname(folder));
  }
}

/**
 * The folders of one server's kept files: of secrets, and of others. Where the run folder is on a disk, secrets are
 * on a tmpfs in the data directory, which an engine with mounts of its own is likelier to see.
 */
export async function keptFolders({ runDir, dataDir }: { runDir: string; dataDir: string }) {
  const own = createHash("sha256").update(dataDir).digest("hex").slice(0, 12);
  return {
    memory: await isInMemory(runDir) ? join(runDir, own, "files") : join(dataDir, "secrets"),
    disk: join(dataDir, "files"),
  };
}

/** One set of a deployment's files. */
export interface KeptSet {
  name: string;
  /** True: it was there already. */
  known: boolean;
  /** Where the nth file is. */
  path(index: number): string;
}

const LIST = "list.json";
type Listed = Omit<DeliveredFile, "content">;

const listed = (files: readonly DeliveredFile[]): Listed[] =>
  files.map(({ content: _, ...file }) => file);

export class KeptFiles {
  readonly #folders: { memory: string; disk: string };
  /** Sets that are being made, or are about to be used: nobody removes them. */
  readonly #held = new Set<string>();
  #memory?: Promise<void>;
  /** Sets that are being written now. */
  #writing = 0;

  constructor(folders: { memory: string; disk: string }) {
    this.#folders = folders;
  }

  #folder(secret: boolean, deployment: string): string {
    return join(secret ? this.#folders.memory : this.#folders.disk, deployment);
  }

  #set(deployment: string, name: string, files: readonly Listed[], known: boolean): KeptSet {
    const path = (index: number) =>
      join(this.#folder(files[index].secret, deployment), name, String(index));
    return { name, known, path };
  }

  /** The folder of secrets, in memory whatever the run folder is on. One that another server made is used. */
  async #openMemory(): Promise<void> {
    const { memory } = this.#folders;
    await ensureDir(memory, 0o700);
    if (await isInMemory(memory)) return;
    mount("svc-files", memory, "tmpfs", FLAGS, `mode=0700,size=${SIZE}`);
  }

  /** Keeps the files: a set that is there and the same, or a new one. The caller then keeps or drops it. */
  async put(deployment: string, files: readonly DeliveredFile[]): Promise<KeptSet> {
    this.#writing++;
    try {
      if (files.some(({ secret }) => secret)) {
        await (this.#memory ??= this.#openMemory().catch((error) => {
          this.#memory = undefined;
          throw error;
        }));
      }
      const found = await this.#find(deployment, files);
      const name = found ?? crypto.randomUUID();
      this.#held.add(name);
      const set = this.#set(deployment, name, files, found !== undefined);
      if (!set.known) await this.#write(deployment, set, files);
      return set;
    } catch (error) {
      // The system's words name paths, and nothing of a content.
      throw asSvcError(error, `Cannot keep the files of ${deployment}`);
    } finally {
      this.#writing--;
    }
  }

  async #write(deployment: string, set: KeptSet, files: readonly DeliveredFile[]): Promise<void> {
    try {
      for (const secret of new Set(files.map((file) => file.secret))) {
        await ensureDir(join(this.#folder(secret, deployment), set.name), 0o700);
      }
      for (const [index, { content, mode, uid, gid }] of files.entries()) {
        const path = set.path(index);
        await Deno.writeFile(path, Buffer.from(content, "base64"), { mode: 0o600 });
        // Owners first: a change of owner takes bits of the mode away.
        if (uid !== Deno.uid() || gid !== Deno.gid()) await Deno.chown(path, uid, gid);
        await Deno.chmod(path, mode);
      }
      // The list makes the set one that can be found: it comes last.
      const folder = this.#folder(files[0].secret, deployment);
      await Deno.writeTextFile(join(folder, set.name, LIST), JSON.stringify(listed(files)));
    } catch (error) {
      await this.drop(deployment, set);
      throw error;
    }
  }

  /** The name of a set with the same files. */
  async #find(
    deployment: string,
    files: readonly DeliveredFile[],
  ): Promise<string | undefined> {
    const folder = this.#folder(files[0].secret, deployment);
    for (const name of await namesIn(folder)) {
      const list = await Deno.readTextFile(join(folder, name, LIST)).catch(() => undefined);
      if (list !== JSON.stringify(listed(files))) continue;
      const set = this.#set(deployment, name, files, true);
      const same = await Promise.all(files.map(async ({ content }, index) => {
        const bytes = await Deno.readFile(set.path(index)).catch(() => undefined);
        return bytes !== undefined && Buffer.from(bytes).equals(Buffer.from(content, "base64"));
      }));
      if (same.every(Boolean)) return name;
    }
    return undefined;
  }

  /** The workload has this set now (or none): all others go, but those that are being made. */
  async keepOnly(deployment: string, set: KeptSet | undefined): Promise<void> {
    if (set) this.#held.delete(set.name);
    for (const root of Object.values(this.#folders)) {
      const folder = join(root, deployment);
      const names = await namesIn(folder);
      const stay = names.filter((name) => name === set?.name || this.#held.has(name));
      for (const name of names) {
        if (!stay.includes(name)) await removeTree(join(folder, name));
      }
      if (stay.length === 0 && names.length > 0) await removeEmpty(folder);
    }
    await this.#closeMemory();
  }

  /** The set is not used after all. */
  async drop(deployment: string, set: KeptSet): Promise<void> {
    this.#held.delete(set.name);
    if (set.known) return;
    for (const root of Object.values(this.#folders)) {
      await removeTree(join(root, deployment, set.name));
      await removeEmpty(join(root, deployment));
    }
    await this.#closeMemory();
  }

  /** Ends a tmpfs that holds nothing any more. */
  async #closeMemory(): Promise<void> {
    const { memory } = this.#folders;
    if (this.#writing > 0 || (await namesIn(memory).catch(() => [""])).length > 0) return;
    this.#memory = undefined;
    if (await isMounted(memory)) unmount(memory, { detach: true });
  }
}

/** Not recursive: somebody may have put a new set into it. */
async function removeEmpty(folder: string): Promise<void> {
  await Deno.remove(folder).catch((error) => {
    if (!(error instanceof Deno.errors.NotFound) && systemCode(error) !== "ENOTEMPTY") throw error;
  });
}
