/** Copies of images between the server's registry and others, told as docker tells them. */
import type { ResolvedManifest } from "../../oci/image.ts";
import type { Descriptor } from "../../oci/types.ts";
import { copyImage, type CopyReporter } from "../../transfer/copy.ts";
import { makePlan, type Origin, type Plan } from "../../transfer/plan.ts";
import { RegistrySink } from "../../transfer/sink.ts";
import type { Registries } from "../../transfer/registries.ts";
import type { Tell } from "../messages.ts";
import type { StoredName } from "./names.ts";
import { noSuchImage } from "./store.ts";

/** Blobs that are moved at once. */
const JOBS = 4;
/** Milliseconds between two messages of one blob. */
const EVERY_MS = 100;

const short = ({ digest }: Pick<Descriptor, "digest">) => digest.split(":")[1].slice(0, 12);

export interface Words {
  waiting: string;
  moving: string;
  there: string;
  done: string;
}

export const PULLING: Words = {
  waiting: "Pulling fs layer",
  moving: "Downloading",
  there: "Already exists",
  done: "Pull complete",
};

export const PUSHING: Words = {
  waiting: "Preparing",
  moving: "Pushing",
  there: "Layer already exists",
  done: "Pushed",
};

function bar(current: number, total: number): string {
  const filled = total > 0 ? Math.min(50, Math.floor(50 * current / total)) : 0;
  const arrow = filled < 50 ? `${"=".repeat(filled)}>` : "=".repeat(50);
  const size = (bytes: number) =>
    bytes < 1e3
      ? `${bytes}B`
      : bytes < 1e6
      ? `${(bytes / 1e3).toPrecision(4)}kB`
      : `${(bytes / 1e6).toPrecision(4)}MB`;
  return `[${arrow.padEnd(50)}]  ${size(current)}/${size(total)}`;
}

/** Tells of layers alone: docker's clients do not know of configs. */
function reporterOf({ root, children }: Plan, words: Words, tell: Tell): CopyReporter {
  const layers = new Set(
    [root, ...children].flatMap(({ parsed }) =>
      parsed.kind === "image" ? parsed.document.layers.map(({ digest }) => digest) : []
    ),
  );
  const told = new Map<string, number>();
  for (const digest of layers) {
    tell({ status: words.waiting, progressDetail: {}, id: short({ digest }) });
  }
  return {
    start: () => {},
    progress(blob, current) {
      const now = performance.now();
      if (!layers.has(blob.digest) || now - (told.get(blob.digest) ?? -EVERY_MS) < EVERY_MS) return;
      told.set(blob.digest, now);
      const progressDetail = { current, total: blob.size };
      const progress = bar(current, blob.size);
      tell({ status: words.moving, progressDetail, progress, id: short(blob) });
    },
    done(blob, outcome) {
      if (!layers.has(blob.digest)) return;
      const status = outcome === "copied" ? words.done : words.there;
      tell({ status, progressDetail: {}, id: short(blob) });
    },
  };
}

export interface Copy {
  origin: Origin;
  top: ResolvedManifest;
  /** The registry that it goes to; absent: the server's own. */
  host?: string;
  to: StoredName;
  registries: Registries;
  /** That platform of an image with several. */
  platform?: string;
  words: Words;
  tell: Tell;
  signal: AbortSignal;
}

/** Returns the copy's manifest or index. Throws what registries answer. */
export async function copyTo(copy: Copy): Promise<ResolvedManifest> {
  const { origin, top, host, to, registries, platform, words, tell, signal } = copy;
  const plan = await makePlan(origin, top, {
    ...(platform !== undefined && { platform }),
    single: false,
    referrers: false,
    jobs: JOBS,
    signal,
    notice: (status) => tell({ status }),
  });
  const sink = new RegistrySink(
    registries.get(host),
    { kind: "registry", ...to, ...(to.digest !== undefined && { digest: undefined }) },
    host ?? registries.serverHost,
  );
  const reporter = reporterOf(plan, words, tell);
  await copyImage(plan, origin, sink, { jobs: JOBS, signal, reporter });
  return plan.root;
}

/** An image of the server's registry as the origin of a copy. Throws `not_found`. */
export async function ownOrigin(
  registries: Registries,
  { repository, root }: { repository: string; root: string },
  label: string,
  signal: AbortSignal,
): Promise<Pick<Copy, "origin" | "top">> {
  const source = registries.get();
  const top = await source.resolve(repository, root, { signal });
  if (!top) throw noSuchImage(label);
  return { origin: { source, repository, label, host: registries.serverHost }, top };
}
