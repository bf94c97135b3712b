/** The plan of a transfer: the image's manifests, read and checked, and the blobs they name. */
import { Semaphore } from "../base/mutex.ts";
import { SvcError } from "../base/errors.ts";
import type { ImageSource, ResolvedManifest } from "../oci/image.ts";
import { readImageConfig } from "../oci/image_config.ts";
import { type ParsedManifest, parseManifest } from "../oci/manifest.ts";
import {
  formatPlatform,
  hostPlatform,
  parsePlatform,
  platformMatches,
  selectPlatform,
} from "../oci/platform.ts";
import { type Descriptor, type Digest, MEDIA, type Platform } from "../oci/types.ts";

/** The source of an image. */
export interface Origin {
  source: ImageSource;
  /** Repository within `source`; "" where the source has none. */
  repository: string;
  /** Name of the image for messages. */
  label: string;
  /** Host, where the source is a registry: a sink in the same registry can mount its blobs. */
  host?: string;
}

export interface Part extends ResolvedManifest {
  parsed: ParsedManifest;
}

export interface Plan {
  /** The manifest that the name at the destination will refer to. */
  root: Part;
  /** Manifests below the root; each follows the manifests that it names. */
  children: Part[];
  /** Manifests that refer to any of these; each follows the one that it refers to. */
  referrers: Part[];
  /** Blobs of all manifests, without duplicates. */
  blobs: Descriptor[];
}

export interface PlanOptions {
  /** "os/arch[/variant]"; absent: all. */
  platform?: string;
  /** The destination holds one platform only: without `platform`, this machine's is taken. */
  single: boolean;
  referrers: boolean;
  jobs: number;
  signal: AbortSignal;
  notice: (message: string) => void;
}

/** Depth of indexes within indexes, and of referrers of referrers, at most. */
const MAX_DEPTH = 8;
const MAX_MANIFESTS = 10_000;
const MAX_CONFIG = 8 * 1024 * 1024;

function unknown(origin: Origin, why: string, help?: string): SvcError {
  return new SvcError("manifest_unknown", `Cannot read ${origin.label}: ${why}`, { help });
}

class Planner {
  readonly #origin: Origin;
  readonly #options: PlanOptions;
  readonly #limit: Semaphore;
  readonly #seen = new Map<Digest, Part>();
  readonly #blobs = new Map<Digest, Descriptor>();

  constructor(origin: Origin, options: PlanOptions) {
    this.#origin = origin;
    this.#options = options;
    this.#limit = new Semaphore(options.jobs);
  }

  async make(top: ResolvedManifest): Promise<Plan> {
    const root = await this.#choose(this.#part(top));
    this.#seen.set(root.descriptor.digest, root);
    const children: Part[] = [];
    await this.#descend(root, children, 0);
    const referrers: Part[] = [];
    if (this.#options.referrers) {
      for (const part of [...children, root]) await this.#refer(part, referrers, 0);
    }
    return { root, children, referrers, blobs: [...this.#blobs.values()] };
  }

  #part(resolved: ResolvedManifest): Part {
    return { ...resolved, parsed: parseManifest(resolved.bytes, resolved.descriptor.mediaType) };
  }

  /** The manifest of the wanted platform, or the whole image. */
  async #choose(top: Part): Promise<Part> {
    const { platform: text, single } = this.#options;
    if (text === undefined && !single) return top;
    const wanted = text === undefined ? hostPlatform() : parsePlatform(text);
    if (top.parsed.kind === "image") {
      if (text !== undefined) await this.#checkPlatform(top, wanted);
      return top;
    }
    const index = top.parsed.document;
    const found = selectPlatform(index, wanted);
    if (!found) {
      const platforms = index.manifests.flatMap((entry) =>
        entry.platform && entry.platform.os !== "unknown" ? formatPlatform(entry.platform) : []
      );
      throw unknown(
        this.#origin,
        `it has no image for ${formatPlatform(wanted)}; it has ${
          [...new Set(platforms)].join(", ") || "none that names its platform"
        }`,
        "choose one with --platform",
      );
    }
    if (text === undefined && index.manifests.length > 1) {
      this.#options.notice(
        `a docker archive holds one platform: taking ${
          formatPlatform(found.platform ?? wanted)
        } (choose with --platform)`,
      );
    }
    const part = await this.#fetch(found);
    return part.parsed.kind === "index" ? await this.#choose(part) : part;
  }

  /** Checks the platform of an image without an index, by its config. */
  async #checkPlatform(part: Part, wanted: Platform): Promise<void> {
    const { parsed } = part;
    if (parsed.kind !== "image") return;
    const { mediaType, digest, size } = parsed.document.config;
    if (mediaType !== MEDIA.config && mediaType !== MEDIA.dockerConfig) return;
    if (size > MAX_CONFIG) throw unknown(this.#origin, `its config has ${size} bytes`);
    const { source, repository } = this.#origin;
    const body = await source.get(repository, digest, { signal: this.#options.signal });
    if (!body) throw unknown(this.#origin, `its config ${digest} is missing`);
    const config = readImageConfig(await new Response(body.stream() as BodyInit).text());
    if (!config) throw unknown(this.#origin, `its config ${digest} is none of an image`);
    if (platformMatches(config, wanted)) return;
    throw unknown(
      this.#origin,
      `it is for ${formatPlatform(config)} alone, not ${formatPlatform(wanted)}`,
      "leave --platform out",
    );
  }

  async #fetch(descriptor: Descriptor): Promise<Part> {
    const { source, repository } = this.#origin;
    const { signal } = this.#options;
    const found = await this.#limit.run(
      () => source.resolve(repository, descriptor.digest, { signal }),
      signal,
    );
    if (!found) {
      throw unknown(
        this.#origin,
        `it names the manifest ${descriptor.digest}, which is not there`,
        "choose a platform that is there with --platform",
      );
    }
    return this.#part(found);
  }

  #add(part: Part): void {
    if (this.#seen.size > MAX_MANIFESTS) {
      throw unknown(this.#origin, `it has more than ${MAX_MANIFESTS} manifests`);
    }
    for (const { mediaType, digest, size } of part.parsed.blobs) {
      if (!this.#blobs.has(digest)) this.#blobs.set(digest, { mediaType, digest, size });
    }
  }

  async #descend(part: Part, into: Part[], depth: number): Promise<void> {
    if (depth > MAX_DEPTH) throw unknown(this.#origin, "its indexes have no end");
    this.#add(part);
    const fresh = part.parsed.manifests.filter(({ digest }, at, all) =>
      !this.#seen.has(digest) && all.findIndex((other) => other.digest === digest) === at
    );
    const parts = await Promise.all(fresh.map((descriptor) => this.#fetch(descriptor)));
    for (const child of parts) this.#seen.set(child.descriptor.digest, child);
    for (const child of parts) {
      await this.#descend(child, into, depth + 1);
      into.push(child);
    }
  }

  async #refer(part: Part, into: Part[], depth: number): Promise<void> {
    if (depth > MAX_DEPTH) return;
    const { source, repository } = this.#origin;
    const { signal } = this.#options;
    for await (
      const descriptor of source.referrers(repository, part.descriptor.digest, { signal })
    ) {
      if (this.#seen.has(descriptor.digest)) continue;
      const referrer = await this.#fetch(descriptor);
      this.#seen.set(descriptor.digest, referrer);
      await this.#descend(referrer, into, depth + 1);
      into.push(referrer);
      await this.#refer(referrer, into, depth + 1);
    }
  }
}

/** Reads all manifests below `top`. Throws `manifest_unknown`, `manifest_invalid`, `digest_invalid`. */
export function makePlan(
  origin: Origin,
  top: ResolvedManifest,
  options: PlanOptions,
): Promise<Plan> {
  return new Planner(origin, options).make(top);
}
