/**
 * The input of containers: a FIFO in the bundle, whose write end a small process holds. The input stays open
 * while no server runs, and ends when that process is ended. Where a monitor holds the container's terminal,
 * input on a terminal goes through the monitor instead.
 */
import { spawn } from "node:child_process";
import { join } from "node:path";
import { SvcError } from "../../base/errors.ts";
import { exists, removeTree, writeFileAtomic } from "../../base/fs.ts";
import type { ContainerInput } from "./engine.ts";
import { SystemError } from "../../sys/errno.ts";
import { close, open } from "../../sys/fd.ts";
import { mknod, O, S_IFIFO } from "../../sys/files.ts";
import { openFifo, type WriteEnd } from "../../sys/write_end.ts";

/** The FIFO's name in the bundle. */
export const FIFO = "stdin";
const HOLDER = "stdin.pid";
/** Seconds: as good as for ever. */
const FOR_EVER = "2147483647";

/**
 * Arguments of the monitor that have the runtime run with the FIFO as its input. The shell opens it for reading
 * while it holds it open itself: nobody has to write meanwhile.
 */
export function withInput(bundle: string, runtime: readonly string[]): string[] {
  const script = 'exec 3<>"$0" 0<"$0" 3>&-; exec "$@"';
  return ["/bin/sh", "-c", script, join(bundle, FIFO), ...runtime];
}

/** Makes the FIFO, and the process that holds it open. */
export async function openInput(bundle: string): Promise<void> {
  const path = join(bundle, FIFO);
  await removeTree(path);
  mknod(path, S_IFIFO | 0o600);
  // The first write end opens only while somebody reads.
  // Our own: the FIFO that was just made.
  const both = open(path, O.RDWR | O.NONBLOCK);
  try {
    const writing = open(path, O.WRONLY);
    try {
      const holder = spawn("sleep", [FOR_EVER], {
        cwd: "/",
        // Says whose it is; the last part is the program's name, which some go by.
        argv0: join(bundle, "sleep"),
        // A session of its own: signals to the server's process group do not reach it.
        detached: true,
        stdio: ["ignore", writing, "ignore"],
      });
      await new Promise<void>((resolve, reject) => {
        holder.once("spawn", resolve);
        holder.once("error", reject);
      });
      holder.unref();
      await writeFileAtomic(join(bundle, HOLDER), String(holder.pid), { mode: 0o600 });
    } finally {
      close(writing);
    }
  } finally {
    close(both);
  }
}

/** Ends the process that holds the FIFO open, and removes both. Idempotent; missing is fine. */
async function removeInput(bundle: string): Promise<void> {
  // Our own: the holder's file.
  const pid = Number(await Deno.readTextFile(join(bundle, HOLDER)).catch(() => ""));
  // Another process may have its pid by now: the holder has the FIFO as its output.
  const held = pid > 0 && await Deno.readLink(`/proc/${pid}/fd/1`).catch(() => undefined);
  if (held === join(bundle, FIFO)) {
    try {
      Deno.kill(pid, "SIGKILL");
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }
  await removeTree(join(bundle, FIFO));
  await removeTree(join(bundle, HOLDER));
}

const inputEnded = (key: string, cause?: unknown) =>
  new SvcError("conflict", `Cannot write to ${key}: its input has ended`, {
    cause,
    help: "restart the deployment to give it input again",
  });

/** The open write ends of all containers of this server. */
export class Inputs {
  #open = new Map<string, Set<WriteEnd>>();
  #bundle: (key: string) => string;
  #terminal: (bundle: string) => WriteEnd;

  /** `terminal`: opens the input of a container on a terminal. */
  constructor(
    bundle: (key: string) => string,
    terminal = (bundle: string): WriteEnd => openFifo(join(bundle, FIFO)),
  ) {
    this.#bundle = bundle;
    this.#terminal = terminal;
  }

  async open(key: string, { tty }: { tty: boolean }): Promise<ContainerInput> {
    const bundle = this.#bundle(key);
    if (!tty && !await exists(join(bundle, FIFO))) throw inputEnded(key);
    let end: WriteEnd;
    try {
      end = tty ? this.#terminal(bundle) : openFifo(join(bundle, FIFO));
    } catch (error) {
      // Nobody reads it any more, or listens.
      if (error instanceof SystemError) throw inputEnded(key, error);
      throw error;
    }
    const others = this.#open.get(key) ?? new Set();
    this.#open.set(key, others.add(end));
    const letGo = () => {
      end.close();
      others.delete(end);
      if (others.size === 0) this.#open.delete(key);
    };
    return {
      async write(bytes) {
        try {
          await end.write(bytes);
        } catch (error) {
          throw error instanceof SystemError ? inputEnded(key, error) : error;
        }
      },
      end: async () => {
        letGo();
        if (!tty) await this.end(key);
      },
      close: letGo,
    };
  }

  /** Ends the input on pipes for everybody. Idempotent; missing is fine. */
  async end(key: string): Promise<void> {
    for (const end of this.#open.get(key) ?? []) end.close();
    this.#open.delete(key);
    await removeInput(this.#bundle(key));
  }
}
