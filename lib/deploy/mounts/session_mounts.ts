/** The mounts of one session: their folders, the process that serves them, and its stream to the caller. */
import { join } from "node:path";
import { type CallerMount, exportOf, FILE_NAME } from "../../api/caller_mounts.ts";
import { ensureDir, ifThere } from "../../base/fs.ts";
import type { Logger } from "../../base/log.ts";
import { sleep } from "../../base/sleep.ts";
import { unmount } from "../../sys/mount.ts";
import { mountsUnder } from "../../sys/mountinfo.ts";
import type { SessionCaller } from "../../wire/attached/callers.ts";
import { LastingStream, WINDOW } from "../../wire/lasting/stream.ts";
import { relay } from "../../wire/relay.ts";
import type { AttachedMount } from "../backend.ts";
import { mountFailure, MountProcess } from "./process.ts";
import type { ServedMount } from "./plan.ts";
import { TREE } from "./tree_root.ts";

/** Milliseconds for all to be mounted: several round trips to the caller. */
const READY_MS = 60_000;
/** Milliseconds between two attempts to connect, and after which a connection counts as one that works. */
const PAUSE_MS = 100;
const WORKS_MS = 1000;
/** Connections in a row that the caller hangs up at once: it is another process, which does not know the mounts. */
const REFUSALS = 10;
/** Milliseconds after which the mounts of a process that does not end are cut off: more than it is given to end. */
const STUCK_MS = 7000;

export interface SessionMountsOptions {
  /** The session's own folder. */
  folder: string;
  mounts: readonly CallerMount[];
  /** How a mount is served besides. */
  how: (mount: CallerMount) => Pick<ServedMount, "cache" | "async">;
  caller: SessionCaller;
  /** Milliseconds that calls wait for a lost connection. */
  graceMs: number;
  log: Logger;
}

/** Levels below a session's folder: one for each mount, with what is below the mount. */
const LEVELS = 2;

/**
 * Unmounts what is below a session's folder, or with `all` below the folder of such folders, and removes the folders.
 * Never looks into a mount. Missing is fine.
 */
export async function sweepMounts(folder: string, { all = false } = {}): Promise<void> {
  for (const { target } of await mountsUnder(folder)) {
    unmount(target, { detach: true, abort: true });
  }
  const remove = async (path: string, depth: number) => {
    const entries = await Array.fromAsync(Deno.readDir(path)).catch(() => []);
    if (depth > 0) { for (const { name } of entries) await remove(join(path, name), depth - 1); }
    // Not recursive: the folder is empty, or something is still mounted there.
    await ifThere(Deno.remove(path));
  };
  await remove(folder, all ? LEVELS + 1 : LEVELS);
}

/** What a workload gets of the mounts below a session's folder. */
export const attachedMounts = (folder: string, mounts: readonly CallerMount[]): AttachedMount[] =>
  mounts.map(({ target, kind, readOnly }, index) => ({
    source: join(folder, String(index), TREE, kind === "file" ? FILE_NAME : ""),
    target,
    readOnly,
  }));

export class SessionMounts {
  readonly #options: SessionMountsOptions;
  readonly #stream = new LastingStream();
  #process: MountProcess | undefined;
  /** All was mounted: until then {@linkcode start} tells what goes wrong. */
  #started = false;
  #ending = false;

  constructor(options: SessionMountsOptions) {
    this.#options = options;
  }

  get mounts(): readonly CallerMount[] {
    return this.#options.mounts;
  }

  #place(index: number): string {
    return join(this.#options.folder, String(index));
  }

  /** What the workload gets. */
  get attached(): AttachedMount[] {
    return attachedMounts(this.#options.folder, this.#options.mounts);
  }

  /** Resolves when all is mounted. Throws what stands in the way; the caller then calls {@linkcode end}. */
  async start(): Promise<void> {
    const { folder, mounts, how, log } = this.#options;
    await sweepMounts(folder);
    await ensureDir(folder, 0o700);
    const served = await Promise.all(mounts.map(async (mount, index) => {
      const at = this.#place(index);
      await Deno.mkdir(at, { mode: 0o700 });
      // Below the mount. An engine that makes what it misses, as podman does, would make an empty folder of it.
      await Deno.symlink(TREE, join(at, TREE));
      return { name: exportOf(index), at, writable: !mount.readOnly, ...how(mount) };
    }));
    const serving = this.#process = await MountProcess.start(served, log);
    // The end of either one ends the other.
    relay(this.#stream, serving.stream).catch(() => {/* told by `ready`, or by the log */});
    void this.#connect();
    void serving.ended.then(() => this.#processEnded());
    const late = Promise.withResolvers<never>();
    const timer = setTimeout(
      () => late.reject(mountFailure("the caller does not answer")),
      READY_MS,
    );
    try {
      await Promise.race([serving.ready, late.promise]);
      this.#started = true;
    } finally {
      clearTimeout(timer);
    }
  }

  #processEnded(): void {
    const { folder, caller, log } = this.#options;
    this.#stream.reset();
    if (this.#ending) return;
    log.warn("a session's mounts have ended before it", { folder });
    if (this.#started) {
      caller.fail(mountFailure("the process that served them at the server ended"));
    }
  }

  /** Connects the stream to the caller, again whenever the connection is lost, until the grace is over. */
  async #connect(): Promise<void> {
    const { caller, graceMs } = this.#options;
    const id = crypto.randomUUID();
    const over = new AbortController();
    void this.#stream.closed.then((error) => over.abort(error));
    let timer: ReturnType<typeof setTimeout> | undefined;
    let refusals = 0;
    const tooLate = () => this.#stream.reset(mountFailure("the connection to the caller is lost"));
    try {
      while (!over.signal.aborted) {
        timer ??= setTimeout(tooLate, graceMs);
        const connection = await caller.open("mount", { id }, { signal: over.signal });
        connection.widen(WINDOW);
        const works = setTimeout(() => {
          refusals = 0;
          clearTimeout(timer);
          timer = undefined;
        }, Math.min(WORKS_MS, graceMs / 2));
        await this.#stream.carry(connection).catch(() => {/* the connection is lost */});
        clearTimeout(works);
        if (++refusals >= REFUSALS) throw mountFailure("the caller does not know them any more");
        await sleep(PAUSE_MS, over.signal);
      }
    } catch (error) {
      this.#stream.reset(error);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Removes the mounts; the workload is gone by now. Idempotent. */
  async end(): Promise<void> {
    this.#ending = true;
    this.#stream.reset(mountFailure("the session has ended"));
    // A process that was killed while the kernel waited for it does not end before its mounts do.
    const timer = setTimeout(
      () => sweepMounts(this.#options.folder).catch(() => {/* told below */}),
      STUCK_MS,
    );
    try {
      await this.#process?.end();
    } finally {
      clearTimeout(timer);
    }
    await sweepMounts(this.#options.folder);
  }
}
