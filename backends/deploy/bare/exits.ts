/** Detects the ends of containers: by the files of their monitors, and by regular looks at each process. */
import { join } from "node:path";
import { ensureDir, exists, removeTree } from "../../../lib/base/fs.ts";
import type {
  ContainerExit,
  ContainerExits,
  ProcessIdentity,
} from "../../../lib/deploy/host/engine.ts";
import { isAlive } from "../../../lib/deploy/host/process.ts";

/** Milliseconds between looks at the processes, in case a monitor was killed. */
const LOOK = 2000;
/** Milliseconds that a dead process's monitor may take to write the exit file. */
const PATIENCE = 1000;

/** Exit code of a container whose monitor could not tell it. */
const UNKNOWN_EXIT = 255;

interface Watched {
  process: ProcessIdentity;
  onExit: (exit: ContainerExit) => void;
  deadSince?: number;
}

export class ExitWatcher implements ContainerExits {
  #folders: { exits: string; instances: string };
  #watched = new Map<string, Watched>();
  #files: Deno.FsWatcher | undefined;
  #timer: ReturnType<typeof setInterval> | undefined;
  #onLook: (key: string) => Promise<unknown>;

  /** `onLook` is called for each container at each regular look, for other regular work. */
  constructor(
    folders: { exits: string; instances: string },
    onLook: (key: string) => Promise<unknown>,
  ) {
    this.#folders = folders;
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
    // The container may have ended before the watch began.
    await this.#check(key);
  }

  unwatch(key: string): void {
    this.#watched.delete(key);
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

  stop(): void {
    clearInterval(this.#timer);
    this.#files?.close();
    this.#files = this.#timer = undefined;
    this.#watched.clear();
  }

  async #start(): Promise<void> {
    if (this.#files) return;
    await ensureDir(this.#folders.exits, 0o700);
    // A second caller at the same time finds the watch started.
    if (this.#files) return;
    const files = this.#files = Deno.watchFs(this.#folders.exits, { recursive: false });
    (async () => {
      for await (const event of files) {
        for (const path of event.paths) await this.#check(path.slice(path.lastIndexOf("/") + 1));
      }
    })().catch(() => {/* closed, or broken: the regular look goes on */});
    this.#timer = setInterval(() => {
      for (const key of this.#watched.keys()) {
        this.#look(key).then(() => this.#onLook(key)).catch(() => {/* again next time */});
      }
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
