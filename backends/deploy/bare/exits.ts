/** Learns of containers' ends: the files their monitors write, and a look at each process now and then. */
import { join } from "node:path";
import { ensureDir } from "../../../lib/base/fs.ts";
import { isAlive, type ProcessIdentity } from "./process.ts";

/** How often processes are looked at, in milliseconds: for a monitor that was killed. */
const LOOK = 2000;
/** How long a dead process's monitor may take to write the exit file. */
const PATIENCE = 1000;

/** Exit code of a container whose monitor could not say it. */
export const UNKNOWN_EXIT = 255;

export interface ContainerExit {
  code: number;
  at: Date;
}

interface Watched {
  process: ProcessIdentity;
  onExit: (exit: ContainerExit) => void;
  deadSince?: number;
}

export class ExitWatcher {
  readonly folder: string;
  #watched = new Map<string, Watched>();
  #files: Deno.FsWatcher | undefined;
  #timer: ReturnType<typeof setInterval> | undefined;
  #onLook: () => Promise<void>;

  /** `onLook` is called with each regular look, for other regular work. */
  constructor(folder: string, onLook: () => Promise<void>) {
    this.folder = folder;
    this.#onLook = onLook;
  }

  /** Calls back once, when the container's exit is known. */
  async watch(
    key: string,
    process: ProcessIdentity,
    onExit: (exit: ContainerExit) => void,
  ): Promise<void> {
    this.#watched.set(key, { process, onExit });
    await this.#start();
    // It may have ended before anybody watched.
    await this.#check(key);
  }

  unwatch(key: string): void {
    this.#watched.delete(key);
  }

  /** What the monitor wrote; undefined where it wrote nothing. */
  async read(key: string): Promise<ContainerExit | undefined> {
    const path = join(this.folder, key);
    try {
      // Our own: the monitor's file.
      const text = (await Deno.readTextFile(path)).trim();
      if (!/^\d+$/.test(text)) return undefined;
      return { code: Number(text), at: (await Deno.stat(path)).mtime ?? new Date() };
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return undefined;
      throw error;
    }
  }

  /** Before a start: what an earlier run left would be taken for this one's end. */
  async forget(key: string): Promise<void> {
    this.unwatch(key);
    await Deno.remove(join(this.folder, key)).catch((error) => {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    });
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#files?.close();
    this.#files = this.#timer = undefined;
    this.#watched.clear();
  }

  async #start(): Promise<void> {
    if (this.#files) return;
    await ensureDir(this.folder, 0o700);
    // Two callers at once: the second finds it started.
    if (this.#files) return;
    const files = this.#files = Deno.watchFs(this.folder, { recursive: false });
    (async () => {
      for await (const event of files) {
        for (const path of event.paths) await this.#check(path.slice(path.lastIndexOf("/") + 1));
      }
    })().catch(() => {/* closed, or broken: the regular look goes on */});
    this.#timer = setInterval(() => {
      Promise.all([...this.#watched.keys()].map((key) => this.#look(key)))
        .then(this.#onLook)
        .catch(() => {/* looked at again next time */});
    }, LOOK);
  }

  async #check(key: string): Promise<boolean> {
    const exit = this.#watched.has(key) ? await this.read(key) : undefined;
    const watched = this.#watched.get(key);
    if (!exit || !watched) return false;
    this.#watched.delete(key);
    watched.onExit(exit);
    return true;
  }

  async #look(key: string): Promise<void> {
    const watched = this.#watched.get(key);
    if (!watched || await isAlive(watched.process) || await this.#check(key)) return;
    watched.deadSince ??= Date.now();
    if (Date.now() - watched.deadSince < PATIENCE) return;
    if (!this.#watched.delete(key)) return;
    watched.onExit({ code: UNKNOWN_EXIT, at: new Date() });
  }
}
