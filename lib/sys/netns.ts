/** Sockets in another network namespace: a socket stays in the namespace in which it was made. */
import { close, open } from "./fd.ts";
import { O } from "./files.ts";
import { check, errno, libc } from "./libc.ts";

const CLONE_NEWNET = 0x40000000;

/** Of the thread that asks, which is the one that runs this program's JavaScript. */
const OWN = "/proc/thread-self/ns/net";

function enter(descriptor: number, path: string): void {
  check(libc().setns(descriptor, CLONE_NEWNET), errno[0], "setns", path);
}

/**
 * Runs `work` with this thread in the network namespace of that file, and comes back. `work` must be done when it
 * returns: what it begins and does not finish (a promise) goes on in the own namespace. `Deno.listen` with an
 * address and `socket(2)` are done. Throws where the namespace cannot be entered.
 */
export function withinNetns<T>(path: string, work: () => T): T {
  const there = open(path, O.RDONLY);
  try {
    const back = open(OWN, O.RDONLY);
    try {
      enter(there, path);
      try {
        return work();
      } finally {
        comeBack(back);
      }
    } finally {
      close(back);
    }
  } finally {
    close(there);
  }
}

/** A server that stayed in a workload's namespace would serve the workload's network: it ends instead. */
function comeBack(descriptor: number): void {
  try {
    enter(descriptor, OWN);
  } catch (error) {
    console.error("svc: cannot return to the own network namespace; ending", error);
    Deno.kill(Deno.pid, "SIGKILL");
  }
}

/** A network namespace held by a descriptor: it stays the same one, whatever becomes of its processes. */
export interface HeldNetns extends Disposable {
  /** A file of the namespace, for programs that this one starts too. */
  path: string;
  /** The kernel's name of it, of which there is no second while it is held. */
  id: string;
}

/** The kernel's name of the namespace that this program is in. */
export const ownNetns = (): string => Deno.readLinkSync(OWN);

/** Holds the namespace that a process is in. Throws `SystemError` where there is no such process. */
export function holdNetns(pid: number): HeldNetns {
  const descriptor = open(`/proc/${pid}/ns/net`, O.RDONLY);
  const path = `/proc/${Deno.pid}/fd/${descriptor}`;
  return { path, id: Deno.readLinkSync(path), [Symbol.dispose]: () => close(descriptor) };
}
