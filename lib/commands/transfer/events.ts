/** Progress events of a transfer, and their display as lines: plain text and NDJSON. */
import { toProblem } from "../../api/problem.ts";
import { formatBytes } from "../../base/bytes.ts";
import type { SvcError } from "../../base/errors.ts";
import type { Io } from "../../base/terminal.ts";
import type { CopyReporter } from "../../transfer/copy.ts";
import type { Plan } from "../../transfer/plan.ts";
import type { Outcome } from "../../transfer/sink.ts";

export interface Result {
  name: string;
  digest: string;
  mediaType: string;
  /** Bytes of all blobs and manifests. */
  size: number;
}

/** Calls never fail or wait. Disposed of after the last event. */
export interface Reporter extends CopyReporter, AsyncDisposable {
  plan(plan: Plan, source: string, destination: string): void;
  notice(message: string): void;
  failed(error: SvcError): void;
}

/** "sha256:0123456789ab": enough to tell the blobs of an image apart. */
export function shortDigest(digest: string): string {
  return digest.slice(0, digest.indexOf(":") + 13);
}

export const WORDS: Record<Outcome, string> = {
  copied: "done",
  exists: "is there already",
  mounted: "mounted",
};

export function planText({ blobs, children, root }: Plan, source: string, destination: string) {
  const bytes = blobs.reduce((sum, blob) => sum + blob.size, 0);
  const images = [...children, root].filter((part) => part.parsed.kind === "image").length;
  const parts = [
    ...(images > 1 ? [`${images} images`] : []),
    `${blobs.length} ${blobs.length === 1 ? "blob" : "blobs"}`,
    formatBytes(bytes),
  ];
  return `${source} -> ${destination} (${parts.join(", ")})`;
}

/** Writes in order without delaying the transfer; when the reader goes away, only the output stops. */
export function writer(write: (text: string) => Promise<void>) {
  let last: Promise<void> = Promise.resolve();
  return {
    write(text: string): void {
      last = last.then(() => write(text));
      last.catch(() => {/* nobody reads: the transfer goes on */});
    },
    /** Resolves when everything is written, or the reader is gone. */
    flushed: () => last.catch(() => {}),
  };
}

const nothing = () => {};

export function quietReporter(): Reporter {
  return {
    plan: nothing,
    start: nothing,
    progress: nothing,
    done: nothing,
    notice: nothing,
    failed: nothing,
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

/** Lines on standard error: one for the start, one for each blob that ends. */
export function plainReporter(io: Io): Reporter {
  const out = writer((text) => io.stderr.write(text));
  return {
    plan: (plan, source, destination) => out.write(planText(plan, source, destination) + "\n"),
    start: nothing,
    progress: nothing,
    done: ({ digest, size }, outcome) =>
      out.write(`${shortDigest(digest)} ${formatBytes(size)} ${WORDS[outcome]}\n`),
    notice: (message) => out.write(`svc: ${message}\n`),
    failed: nothing,
    [Symbol.asyncDispose]: () => out.flushed(),
  };
}

/** Milliseconds between two progress lines of one blob. */
const PROGRESS_MS = 500;

/** One JSON object a line, on standard output; the last one is `result` or `error`. */
export function jsonReporter(io: Io): Reporter {
  const out = writer((text) => io.stdout.write(text));
  const line = (value: unknown) => out.write(JSON.stringify(value) + "\n");
  const told = new Map<string, number>();
  return {
    plan({ root, children, referrers, blobs }, source, destination) {
      line({
        type: "plan",
        source,
        destination,
        digest: root.descriptor.digest,
        mediaType: root.descriptor.mediaType,
        manifests: 1 + children.length + referrers.length,
        blobs: blobs.length,
        bytes: blobs.reduce((sum, blob) => sum + blob.size, 0),
      });
    },
    start({ digest, size, mediaType }) {
      told.set(digest, Date.now());
      line({ type: "start", digest, mediaType, size });
    },
    progress({ digest, size }, current) {
      if (Date.now() - (told.get(digest) ?? 0) < PROGRESS_MS) return;
      told.set(digest, Date.now());
      line({ type: "progress", digest, current, total: size });
    },
    done: ({ digest, size }, outcome) => line({ type: "done", digest, size, outcome }),
    notice: (message) => line({ type: "notice", message }),
    failed: (error) => line({ type: "error", error: toProblem(error) }),
    [Symbol.asyncDispose]: () => out.flushed(),
  };
}
