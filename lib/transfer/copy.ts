/** Copies one image: reports the plan, moves blobs in parallel, then sets its names. */
import { SvcError } from "../base/errors.ts";
import { Semaphore } from "../base/mutex.ts";
import type { Descriptor } from "../oci/types.ts";
import type { Origin, Plan } from "./plan.ts";
import type { BlobOrigin, Outcome, TransferSink } from "./sink.ts";

/** Is told how a copy goes. Calls never fail or wait. */
export interface CopyReporter {
  start(blob: Descriptor): void;
  progress(blob: Descriptor, bytes: number): void;
  done(blob: Descriptor, outcome: Outcome): void;
}

export interface CopyOptions {
  /** Blobs that are moved at once. */
  jobs: number;
  signal: AbortSignal;
  reporter: CopyReporter;
}

function blobOrigin(origin: Origin, { digest, size }: Descriptor): BlobOrigin {
  const { source, repository, host, label } = origin;
  return {
    ...(host !== undefined && { registry: { host, repository } }),
    async open(offset, signal) {
      const range = offset > 0 ? { start: offset } : undefined;
      const body = await source.get(repository, digest, { signal, range });
      if (!body) {
        throw new SvcError("blob_unknown", `Cannot read ${label}: its blob ${digest} is missing`, {
          help: "the image is damaged where it comes from: push it there again",
        });
      }
      if (body.size !== size - offset) {
        throw new SvcError(
          "size_invalid",
          `Cannot read ${label}: its blob ${digest} has ${body.size + offset} bytes, not ${size}`,
          { help: "the image is damaged where it comes from: push it there again" },
        );
      }
      return body.stream();
    },
  };
}

/**
 * Moves the plan's blobs and manifests into `sink`; the first failure ends the others. Returns the image's
 * names there. On a failure the sink keeps what has arrived for another attempt.
 */
export async function copyImage(
  plan: Plan,
  origin: Origin,
  sink: TransferSink,
  { jobs, signal, reporter }: CopyOptions,
): Promise<string[]> {
  await sink.begin(plan, signal);
  const stop = new AbortController();
  const both = AbortSignal.any([signal, stop.signal]);
  const limit = new Semaphore(jobs);
  let failure: { error: unknown } | undefined;
  await Promise.allSettled(plan.blobs.map((blob) =>
    limit.run(async () => {
      both.throwIfAborted();
      reporter.start(blob);
      const outcome = await sink.blob(blob, blobOrigin(origin, blob), {
        signal: both,
        report: (bytes) => reporter.progress(blob, bytes),
      });
      reporter.done(blob, outcome);
    }, both).catch((error) => {
      failure ??= { error };
      stop.abort(error);
    })
  ));
  signal.throwIfAborted();
  if (failure) throw failure.error;
  return await sink.finish(plan, signal);
}
