/** Log frames that go on where a connection broke off, none twice. */
import type { LogFrame } from "../api/deployment.ts";

/** Instances are asked side by side: a frame may come after one that is a little younger. */
const WINDOW_MS = 1000;

const keyOf = ({ time, instance, stream, line }: LogFrame) =>
  JSON.stringify([time, instance, stream, line]);

/** Remembers what was shown lately. */
export class Resumption {
  #recent: { key: string; time: number }[] = [];
  /** How often each frame that comes again was shown. */
  #again = new Map<string, number>();

  /** Where to begin anew; undefined: nothing was shown yet. Frames from there on are passed over once each. */
  begin(): Date | undefined {
    const newest = this.#recent.at(-1)?.time;
    this.#again.clear();
    for (const { key } of this.#recent) this.#again.set(key, (this.#again.get(key) ?? 0) + 1);
    return newest === undefined ? undefined : new Date(newest - WINDOW_MS);
  }

  /** True for a frame that was not shown yet; it is then. */
  take(frame: LogFrame): boolean {
    const key = keyOf(frame);
    const left = this.#again.get(key) ?? 0;
    if (left > 0) {
      this.#again.set(key, left - 1);
      return false;
    }
    const time = Date.parse(frame.time);
    this.#recent.push({ key, time });
    while (this.#recent[0].time < time - WINDOW_MS) this.#recent.shift();
    return true;
  }
}
