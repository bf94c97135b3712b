/** Descriptors that go over to another process of the same user: the same open files, with their locks. */
import { close } from "./fd.ts";
import { callHere, tryCall } from "./system_call.ts";

const PR_SET_PTRACER = 0x59616d61;
const ANY = 0xffffffffffffffffn;

/** Other processes of this user may take this one's descriptors, also where the kernel is strict (Yama). */
export function letTake(): void {
  // Without Yama the call fails, and is not needed.
  tryCall("prctl", PR_SET_PTRACER, ANY, 0, 0, 0);
}

/** A process whose descriptors are taken. */
export class Giver implements Disposable {
  readonly #pidfd: number;

  /** Throws where there is no such process. */
  constructor(pid: number) {
    this.#pidfd = callHere("pidfd_open", pid, 0);
  }

  /** The same open file; the caller closes it. Throws where there is none, or it may not be taken. */
  take(fd: number): number {
    return callHere("pidfd_getfd", this.#pidfd, fd, 0);
  }

  [Symbol.dispose](): void {
    close(this.#pidfd);
  }
}
