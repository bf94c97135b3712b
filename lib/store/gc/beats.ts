/** Signs of life of publications' claims: objects that change for as long as their holders live; see guard.ts. */
import type { Logger } from "../../base/log.ts";
import { beatKey } from "../keys.ts";
import type { CallOptions, ObjectStore } from "../object_store.ts";

export class Beats {
  /** Of others' claims, what this process saw last. */
  #seen = new Map<string, number>();

  constructor(
    private readonly objects: ObjectStore,
    /** A claim without a beat for so long is a dead process's. */
    readonly aliveMs: number,
    private readonly log: Logger,
  ) {}

  /** A publication that is soon over needs no beat. The result ends them, and is to be awaited. */
  begin(claim: string): () => Promise<void> {
    const key = beatKey(claim);
    let beat: Promise<unknown> | undefined;
    const timer = setInterval(() => {
      beat = this.objects.put(key, new Uint8Array()).catch((error) =>
        this.log.warn("a sign of life could not be written", { error })
      );
    }, this.aliveMs / 3);
    return async () => {
      clearInterval(timer);
      if (!beat) return;
      await beat;
      await this.objects.delete(key);
    };
  }

  /** True where there was a beat since this was last asked of the claim. */
  async lives(claim: string, call: CallOptions): Promise<boolean> {
    const beat = (await this.objects.stat(beatKey(claim), call))?.modified.getTime();
    if (beat === undefined || beat === this.#seen.get(claim)) return false;
    this.#seen.set(claim, beat);
    return true;
  }

  /** The claim goes. */
  async forget(claim: string, call: CallOptions): Promise<void> {
    if (this.#seen.delete(claim)) await this.objects.delete(beatKey(claim), call);
  }
}
