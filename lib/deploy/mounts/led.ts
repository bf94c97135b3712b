/** Mounts of one session that companions serve: the server leads their streams to the caller, and reads none. */
import type { CallerMount } from "../../api/caller_mounts.ts";
import { COMPANION_MOUNTS, COMPANION_SESSION } from "../../api/caretaker.ts";
import type { SessionCaller } from "../../wire/attached/callers.ts";
import type { Fields } from "../../wire/attached/session.ts";
import type { BlockOptions } from "../../wire/blocks/protocol.ts";
import { WINDOW } from "../../wire/lasting/stream.ts";
import { relay } from "../../wire/relay.ts";
import type { YamuxStream } from "../../wire/yamux/stream.ts";
import type { CompanionPlan } from "../backend.ts";
import { mountFailure } from "./process.ts";
import { attachedMounts } from "./session_mounts.ts";

/**
 * The role of the companions, and what their instances get. `how`: of a mount whose blocks are kept. The caller's
 * secret names for what may be kept longer stay here: a companion keeps nothing of that.
 */
export function companionMounts(mounts: readonly CallerMount[], { graceMs, how }: {
  graceMs: number;
  how: (mount: CallerMount) => BlockOptions | undefined;
}): CompanionPlan {
  const folder = `${COMPANION_MOUNTS}/${COMPANION_SESSION}`;
  const plain = mounts.map(({ target, kind, readOnly }) => ({ target, kind, readOnly }));
  const blocks = Object.fromEntries(mounts.map((mount) => [mount.target, how(mount)]));
  return {
    roles: { mount: { mounts: plain, blocks, folder, graceMs } },
    mounts: attachedMounts(COMPANION_SESSION, mounts),
  };
}

export class LedMounts {
  readonly #caller: SessionCaller;
  /** By the instance's key: the name that its companion gave to its mounts. */
  readonly #served = new Map<string, string>();
  readonly #over = new AbortController();
  /** What the caller is told of mounts that are not as they were asked for. */
  readonly warnings: string[];

  constructor(caller: SessionCaller, mounts: readonly CallerMount[] = []) {
    this.#caller = caller;
    this.warnings = mounts.flatMap(({ cache, target }) =>
      cache === undefined
        ? []
        : `mount ${target}: it is not cached, since its companion keeps no files; it is read-only`
    );
  }

  /** A companion's stream: to the caller, or the news that its mounts are lost, with which the session ends. */
  async lead(key: string, stream: YamuxStream, { id, lost }: Fields): Promise<void> {
    const served = this.#served.get(key);
    // One that was started again mounts anew, where the instance has the old mounts.
    const anew = served !== undefined && served !== id;
    if (typeof lost === "string" || anew) {
      stream.reset();
      const why = anew ? "the companion that served them was started again" : lost as string;
      return this.#caller.fail(mountFailure(why));
    }
    if (typeof id !== "string" || this.#over.signal.aborted) return stream.reset();
    this.#served.set(key, id);
    try {
      const { signal } = this.#over;
      const theirs = await this.#caller.open("mount", { id, place: key }, { signal });
      for (const one of [stream, theirs]) one.widen(WINDOW);
      await relay(stream, theirs);
    } catch {
      // The companion tries again, until its grace is over.
      stream.reset();
    }
  }

  /** The workload is gone. Idempotent. */
  end(): Promise<void> {
    this.#over.abort();
    return Promise.resolve();
  }
}
