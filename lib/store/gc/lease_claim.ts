/** A durable claim that the leases taken at the same moment share. */
import { SvcError } from "../../base/errors.ts";
import type { Lease } from "./lease_table.ts";

export class LeaseClaim {
  readonly #leases: Lease[] = [];
  #left = 0;
  #name = Promise.withResolvers<string>();
  #done = Promise.withResolvers<void>();

  /** `drop`: called once, with the claim's key, when no lease needs it any more. */
  constructor(private readonly drop: (name: string) => Promise<void>) {
    // A failure reaches callers through `done`. Where nobody waits for `done`, no client was told anything.
    this.#name.promise.catch(() => {});
    this.#done.promise.catch(() => {});
  }

  /** Resolves once it is safe to rely on the leases. */
  get done(): Promise<void> {
    return this.#done.promise;
  }

  get keys(): string[] {
    return [...new Set(this.#leases.map((lease) => lease.key))];
  }

  add(lease: Lease, now: number): void {
    this.#leases.push(lease);
    this.#left++;
    let released = false;
    lease.claim = {
      taken: now,
      held: this.done,
      release: () => {
        if (released) return;
        released = true;
        if (--this.#left === 0) this.#name.promise.then(this.drop, () => {/* never written */});
      },
    };
  }

  written(name: string): void {
    this.#name.resolve(name);
  }

  settled(): void {
    this.#done.resolve();
  }

  failed(error: unknown): void {
    for (const lease of this.#leases) {
      if (lease.claim?.held === this.done) lease.claim = undefined;
    }
    this.#name.reject(error);
    this.#done.reject(error);
  }
}

/** The claim was given up meanwhile: work that relied on it may have been undone. */
export class ClaimLost extends SvcError {
  constructor() {
    super(
      "unavailable",
      "Cannot publish the manifest: it took so long that its claim was given up",
      { help: "push again" },
    );
  }
}
