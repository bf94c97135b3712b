/** What every backend that schedules replicas itself does with updateConfig and with a roll-out that fails. */
import type { DeploySpec } from "../api/deploy_spec.ts";
import { parseDuration } from "../base/duration.ts";
import { SvcError } from "../base/errors.ts";

export interface Batch<T> {
  made: T[];
  /** The instances that the new ones replace. */
  old: T[];
}

/**
 * Batches of `parallelism` instances, 0 for all at once, each with the old instance of its number. Old
 * instances without a successor are in the last batch.
 */
export function batchesOf<T>(
  parallelism = 0,
  made: readonly T[],
  old: readonly T[],
  replicaOf: (instance: T) => number,
): Batch<T>[] {
  const size = parallelism || Math.max(made.length, 1);
  const left = new Set(old);
  const batches: Batch<T>[] = [];
  for (let from = 0; from === 0 || from < made.length; from += size) {
    const some = made.slice(from, from + size);
    const replicas = new Set(some.map(replicaOf));
    const theirs = old.filter((one) => replicas.has(replicaOf(one)));
    for (const one of theirs) left.delete(one);
    batches.push({ made: some, old: theirs });
  }
  batches.at(-1)!.old.push(...left);
  return batches;
}

/** The error of a roll-out of `count` instances, of which `done` had been replaced already. */
export function stoppedHalfway(error: unknown, count: number, done: number): unknown {
  if (done === 0 || done === count || !(error instanceof SvcError)) return error;
  const { code, message, detail } = error;
  return new SvcError(code, message, {
    cause: error,
    detail,
    help: `${done} of ${count} instances are replaced already, the others run on as they were; ` +
      "deploy again to go on, or deploy what was there before to go back",
  });
}

/** Waits for all work, then throws the first error: no work goes on behind a failure. */
export async function allOrFirstError<T>(work: Promise<T>[]): Promise<T[]> {
  const results = await Promise.allSettled(work);
  return results.map((result) => {
    if (result.status === "rejected") throw result.reason;
    return result.value;
  });
}

/** A stop without an end would block every later change of the deployment: throws `spec_invalid`. */
export function checkTimes(spec: DeploySpec): void {
  const day = 24 * 3600 * 1000;
  if (spec.stopGracePeriod !== undefined && parseDuration(spec.stopGracePeriod) > day) {
    throw new SvcError("spec_invalid", "Cannot use stopGracePeriod: more than a day");
  }
}
