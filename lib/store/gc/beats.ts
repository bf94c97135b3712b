/**
 * Signs of life of publications' claims: objects that change for as long as the claim's holder lives; see
 * guard.ts.
 */
import type { Logger } from "../../base/log.ts";
import { beatKey } from "../keys.ts";
import type { CallOptions, ObjectStore } from "../object_store.ts";

export class Beats {
  /** The last beat that this process saw of each claim of others. */
  #seen = new Map<string, number>();

  constructor(
    private readonly objects: ObjectStore,
    /** Milliseconds without a beat after which a claim counts as a dead process's. */
    readonly aliveMs: number,
    private readonly log: Logger,
  ) {}

  /** Beats until the result is called and awaited. A publication that ends quickly writes no beat. */
  begin(claim: string): () => Promise<void> {
    const key = beatKey(claim);
    let beat: Promise<unknown> | undefined;
    const timer = setInterval(() => {
      beat = this.objects.put(key, new Uint8Array()).catch((error) =>
        this.log.warn("a heartbeat could not be written", { error })
      );
    }, this.aliveMs / 3);
    return async () => {
      clearInterval(timer);
      if (!beat) return;
      await beat;
      await this.objects.delete(key);
    };
  }

  /** True where the claim had a beat since the last call for it. */
  async lives(claim: string, call: CallOptions): Promise<boolean> {
    const beat = (await this.objects.stat(beatKey(claim), call))?.modified.getTime();
    if (beat === undefined || beat === this.#seen.get(claim)) return false;
    this.#seen.set(claim, beat);
    return true;
  }

  /** The claim is gone: removes its beat. */
  async forget(claim: string, call: CallOptions): Promise<void> {
    if (this.#seen.delete(claim)) await this.objects.delete(beatKey(claim), call);
  }
}
