/** Replaces old instances by new ones, a batch at a time, without losing requests. */
import type { SocketPort } from "../../runtime/listening.ts";
import type { ApplyUntil } from "../../api/deployment.ts";
import type { ApplyProgress } from "../backend.ts";
import { refuseIfStrict } from "../fields.ts";
import { allOrFirstError, type Batch } from "../roll_out.ts";
import type { Deployment } from "./deployment.ts";
import type { Instance } from "./instance.ts";
import { drained, FIRST_WINDOW, settled, type Trial } from "./trial.ts";

/** Milliseconds that a replacement without a health check has to run. */
const REPLACE_WINDOW = 1000;

export interface RollOutOptions {
  onProgress: ApplyProgress;
  /** Receives warnings for requests that could not be granted. */
  warnings: string[];
  signal?: AbortSignal;
  /** "ready": new instances are on trial until they can be relied on; else they count at once. */
  until: ApplyUntil;
}

export interface ReplaceOptions {
  /** Ports that the new instances have to listen on, and the milliseconds they have for it. */
  takesOver: readonly SocketPort[];
  limit: number;
  /** True: the old instances stop first. False: the new instances are up first. */
  stopFirst: boolean;
  /** The new instances are to have addresses of the old ones, which stop first then. */
  inherits: boolean;
  /** Called when the new instances have taken over, before the record is saved. */
  taken: () => void;
}

export class RollOut {
  #deployment: Deployment;
  #options: RollOutOptions;

  constructor(deployment: Deployment, options: RollOutOptions) {
    this.#deployment = deployment;
    this.#options = options;
  }

  get until(): ApplyUntil {
    return this.#options.until;
  }

  /** Creates the first instances of a deployment. */
  async begin(made: readonly Instance[], image: string): Promise<void> {
    await this.#make(made, image);
    await this.#settle(made, { window: FIRST_WINDOW, orListening: true });
    for (const one of made) one.join();
  }

  async #settle(made: readonly Instance[], trial: Omit<Trial, "signal">): Promise<void> {
    const { signal, until } = this.#options;
    if (until !== "ready") return;
    await allOrFirstError(made.map((one) => settled(one, { ...trial, signal })));
  }

  /** Replaces one batch. Where the new instances do not come up, they are removed and the old ones go on. */
  async replace(
    { made, old }: Batch<Instance>,
    image: string,
    options: ReplaceOptions,
  ): Promise<void> {
    const { takesOver, limit, inherits, taken } = options;
    const stopFirst = options.stopFirst || inherits;
    const { onProgress } = this.#options;
    const running = old.filter((one) => one.running);
    try {
      if (stopFirst) await this.#stop(old);
      if (inherits) await Promise.all(old.map((one) => one.vacate()));
      await this.#make(made, image);
      await this.#settle(made, { window: REPLACE_WINDOW, takesOver, limit });
      for (const one of made) one.join();
      for (const one of old) one.leave();
      // Rules and names change in one step: every request finds an instance.
      await this.#deployment.moved();
    } catch (error) {
      for (const one of made) one.leave();
      await this.discard(made);
      for (const one of old) one.join();
      if (stopFirst) await this.#resume(running);
      await this.#deployment.moved().catch(() => {/* the first error is the one to tell */});
      throw error;
    }
    taken();
    await this.#deployment.save();
    for (const one of made) one.supervise();
    if (old.length === 0) return;
    onProgress("removing the old instances");
    await this.#retire(old);
  }

  async #make(made: readonly Instance[], image: string): Promise<void> {
    const { onProgress, warnings, signal, until } = this.#options;
    const start = until !== "created";
    const count = `${made.length} instance${made.length === 1 ? "" : "s"}`;
    onProgress(`${start ? "starting" : "making"} ${count}`);
    const reports = await allOrFirstError(made.map((one) => one.create(image, { signal, start })));
    for (const warning of reports.flat()) if (!warnings.includes(warning)) warnings.push(warning);
    for (const { spec } of made.slice(0, 1)) refuseIfStrict(spec, warnings);
    if (until === "ready" && made.some((one) => one.made.plan.health)) {
      onProgress("waiting until healthy");
    }
  }

  /** Stops the old instances after they have answered their requests; they get no new ones. */
  async #stop(old: readonly Instance[]): Promise<void> {
    for (const one of old) one.leave({ whileStopped: true });
    await this.#deployment.moved();
    await Promise.all(old.map(async (one) => {
      await drained(one);
      await one.stop();
    }));
  }

  async #resume(old: readonly Instance[]): Promise<void> {
    await Promise.allSettled(old.map((one) => one.start()));
    for (const one of old) one.supervise();
  }

  /** Removes the old instances after they have answered their requests; they get no new ones. */
  async #retire(old: readonly Instance[]): Promise<void> {
    await Promise.all(old.map(async (one) => {
      await drained(one);
      await one.end();
    }));
    this.#deployment.drop(old);
    await this.#deployment.save();
  }

  /** Removes new instances that did not come up; the next start tries again where that fails. */
  async discard(made: readonly Instance[]): Promise<void> {
    const gone = made.filter((one) => !one.ready);
    const results = await Promise.allSettled(gone.map((one) => one.remove()));
    this.#deployment.drop(gone.filter((_, index) => results[index].status === "fulfilled"));
  }
}
