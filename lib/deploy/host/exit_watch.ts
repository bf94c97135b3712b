/** Detects the ends of containers: by what the engine tells, and by regular looks at each process. */
import type { ContainerExit, ContainerExits, ProcessIdentity } from "./engine.ts";
import { isAlive } from "./process.ts";

/** Milliseconds between looks at the processes, in case an end was not told. */
const LOOK = 2000;
/** Milliseconds that the engine may take to tell how a dead process ended. */
const PATIENCE = 1000;

/** Exit code of a container whose engine could not tell it. */
const UNKNOWN_EXIT = 255;

interface Watched {
  process: ProcessIdentity;
  onExit: (exit: ContainerExit) => void;
  deadSince?: number;
}

export interface ExitWatchOptions {
  /** How that container ended; undefined: the engine knows of no end. What it throws means "ask again later". */
  read: (key: string) => Promise<ContainerExit | undefined>;
  /** Begins to call back with keys of containers that may have ended; returns the function that ends it. */
  listen: (hint: (key: string) => Promise<unknown>) => () => void;
  /** Called for each running container at each regular look, for other regular work. */
  onLook?: (key: string) => Promise<unknown>;
}

export class ExitWatch implements ContainerExits {
  #options: ExitWatchOptions;
  #watched = new Map<string, Watched>();
  #unlisten: (() => void) | undefined;
  #timer: ReturnType<typeof setInterval> | undefined;

  constructor(options: ExitWatchOptions) {
    this.#options = options;
  }

  /** Calls back once, when the container's exit is known. */
  async watch(
    key: string,
    process: ProcessIdentity,
    onExit: (exit: ContainerExit) => void,
  ): Promise<void> {
    this.#watched.set(key, { process, onExit });
    this.#start();
    // The container may have ended before the watch began. Where that cannot be asked now, the next look asks.
    await this.#check(key).catch(() => {});
  }

  unwatch(key: string): void {
    this.#watched.delete(key);
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#unlisten?.();
    this.#unlisten = this.#timer = undefined;
    this.#watched.clear();
  }

  #start(): void {
    if (this.#unlisten) return;
    this.#unlisten = this.#options.listen((key) => this.#check(key));
    this.#timer = setInterval(() => {
      for (const key of this.#watched.keys()) {
        this.#look(key).catch(() => {/* again next time */});
      }
    }, LOOK);
  }

  async #check(key: string): Promise<boolean> {
    const before = this.#watched.get(key);
    const exit = before && await this.#options.read(key);
    const watched = this.#watched.get(key);
    // A restart meanwhile watches another process.
    if (!exit || watched !== before) return false;
    this.#watched.delete(key);
    watched!.onExit(exit);
    return true;
  }

  async #look(key: string): Promise<void> {
    const watched = this.#watched.get(key);
    if (!watched) return;
    if (await isAlive(watched.process)) return void await this.#options.onLook?.(key);
    if (await this.#check(key)) return;
    watched.deadSince ??= performance.now();
    if (performance.now() - watched.deadSince < PATIENCE) return;
    if (this.#watched.get(key) !== watched) return;
    this.#watched.delete(key);
    watched.onExit({ code: UNKNOWN_EXIT, at: new Date() });
  }
}
