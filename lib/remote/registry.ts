/** Another registry as an image source and sink (OCI Distribution Specification 1.1, client side). */
import { SvcError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { digestOf, isDigest, parseDigest, verified } from "../oci/digest.ts";
import type { ImageSink, ImageSource, ReadOptions, ResolvedManifest } from "../oci/image.ts";
import { MAX_MANIFEST_BYTES } from "../oci/manifest.ts";
import { type Descriptor, type Digest, type Index, MEDIA } from "../oci/types.ts";
import type { Credentials } from "./auth.ts";
import { readBounded, readObject } from "./bounded.ts";
import { download } from "./download.ts";
import { referrersTag, subjectOf, withReferrer } from "./referrers_tag.ts";
import { refusal, Transport } from "./transport.ts";
import { mount, upload } from "./upload.ts";

export interface RemoteRegistryOptions {
  /** "host[:port]"; "docker.io" is the registry of that name. */
  host: string;
  /** Without TLS; default: only hosts of the loopback interface. */
  plainHTTP?: boolean;
  /** Asked when the registry demands a login, and not before. */
  credentials?: () => Promise<Credentials | undefined>;
  userAgent: string;
  /** Makes the connections; absent: Deno's own, which follows the proxy variables. */
  client?: Deno.HttpClient;
  log: Logger;
  /** Longest silence in milliseconds; default 30000. */
  stallMs?: number;
  /** Attempts of one request; default 5. */
  attempts?: number;
  /** First pause between attempts in milliseconds, doubled each time; default 200. */
  pauseMs?: number;
}

export interface RemoteRegistry extends ImageSource, Required<Omit<ImageSink, "adoptBlob">> {
  /**
   * What a tag names, without moving the manifest; no digest where the registry does not say. Missing:
   * undefined.
   */
  head(
    repository: string,
    reference: string,
    options?: ReadOptions,
  ): Promise<{ digest?: Digest } | undefined>;
  /** The same registry, asked for somebody else: with this Via field (RFC 9110 7.6.3). */
  through(via: string): RemoteRegistry;
}

const ACCEPT = [MEDIA.manifest, MEDIA.index, MEDIA.dockerManifest, MEDIA.dockerList].join(", ");
/** Pages of one listing: a registry that names next pages for ever is stopped. */
const MAX_PAGES = 10_000;

/** Bytes of one page: some registries give all tags in one. */
const MAX_PAGE_BYTES = 32 * 1024 * 1024;
/** Names of one listing, which are sorted in memory. */
const MAX_TAGS = 1_000_000;

const listOf = (value: unknown): unknown[] => Array.isArray(value) ? value : [];

/** Those that are some, of a list that a registry gave. */
function descriptorsOf(value: unknown): Descriptor[] {
  return (listOf(value) as Partial<Descriptor>[]).filter((item): item is Descriptor =>
    typeof item?.digest === "string" && isDigest(item.digest) &&
    typeof item.mediaType === "string" && typeof item.size === "number"
  );
}

/** True for localhost, *.localhost, 127.0.0.0/8 and ::1, with or without a port. */
export function isLoopbackHost(host: string): boolean {
  const name = host.startsWith("[")
    ? host.slice(1, host.indexOf("]"))
    : host.replace(/:\d+$/, "").toLowerCase();
  return name === "localhost" || name.endsWith(".localhost") || name === "::1" ||
    /^127(\.\d{1,3}){3}$/.test(name);
}

/** The URL of `rel="next"` (RFC 8288). */
function nextPage(link: string | null, from: URL): URL | undefined {
  for (const [, target, parameters] of (link ?? "").matchAll(/<([^>]*)>([^,]*)/g)) {
    if (/;\s*rel="?next"?/i.test(parameters) && URL.canParse(target, from)) {
      return new URL(target, from);
    }
  }
  return undefined;
}

function mediaTypeOf(response: Response, bytes: Uint8Array): string {
  const declared = response.headers.get("content-type")?.split(";")[0].trim();
  if (declared && declared !== "application/json" && !declared.startsWith("text/")) return declared;
  try {
    const json = JSON.parse(new TextDecoder().decode(bytes)) as Partial<Index>;
    return json.mediaType ?? (Array.isArray(json.manifests) ? MEDIA.index : MEDIA.manifest);
  } catch {
    return MEDIA.manifest; // whoever parses it says what is wrong with it
  }
}

/**
 * A client of one registry; keeps tokens, no other state. Blob streams go on with a range where a
 * connection breaks, and are verified while they pass. Failures: `unauthorized`, `denied`,
 * `upstream_failed`, `timeout`, `unavailable` (rate limit), and what digests say.
 */
export function createRemoteRegistry(options: RemoteRegistryOptions): RemoteRegistry {
  return registryOver(
    new Transport({
      ...options,
      plainHTTP: options.plainHTTP ?? isLoopbackHost(options.host),
      credentials: options.credentials ?? (() => Promise.resolve(undefined)),
    }),
  );
}

function registryOver(transport: Transport): RemoteRegistry {
  const { host } = transport;
  const pull = (repository: string) => `repository:${repository}:pull`;
  const push = (repository: string) => `repository:${repository}:pull,push`;

  async function resolve(
    repository: string,
    reference: string,
    call: { signal?: AbortSignal } = {},
  ): Promise<ResolvedManifest | undefined> {
    const what = `Cannot read ${host}/${repository}${isDigest(reference) ? "@" : ":"}${reference}`;
    const response = await transport.request(`${repository}/manifests/${reference}`, {
      scope: pull(repository),
      headers: { accept: ACCEPT },
      signal: call.signal,
    });
    if (response.status === 404) return void await response.body?.cancel();
    if (response.status !== 200) throw await refusal(what, host, response);
    const tooLarge = () =>
      new SvcError("manifest_too_large", `${what}: it has more than ${MAX_MANIFEST_BYTES} bytes`);
    const bytes = await readBounded(response, MAX_MANIFEST_BYTES, tooLarge)
      .catch((error) => Promise.reject(transport.failure(error)));
    const claimed = isDigest(reference)
      ? reference
      : response.headers.get("docker-content-digest") ?? "";
    const digest = digestOf(bytes, isDigest(claimed) ? parseDigest(claimed).algorithm : "sha256");
    if (claimed !== "" && digest !== claimed) {
      throw new SvcError(
        "digest_invalid",
        `${what}: the manifest has the digest ${digest}, not ${claimed}`,
      );
    }
    const mediaType = mediaTypeOf(response, bytes);
    return { descriptor: { mediaType, digest, size: bytes.length }, bytes };
  }

  async function head(
    repository: string,
    reference: string,
    call: ReadOptions = {},
  ): Promise<{ digest?: Digest } | undefined> {
    const response = await transport.request(`${repository}/manifests/${reference}`, {
      method: "HEAD",
      scope: pull(repository),
      headers: { accept: ACCEPT },
      signal: call.signal,
    });
    await response.body?.cancel();
    if (response.status === 404) return undefined;
    if (response.status !== 200) {
      throw await refusal(`Cannot look for ${host}/${repository}:${reference}`, host, response);
    }
    const digest = response.headers.get("docker-content-digest") ?? "";
    return isDigest(digest) ? { digest } : {};
  }

  async function stat(
    repository: string,
    digest: string,
    call: { signal?: AbortSignal } = {},
  ): Promise<{ size: number } | undefined> {
    const response = await transport.request(`${repository}/blobs/${digest}`, {
      method: "HEAD",
      scope: pull(repository),
      signal: call.signal,
    });
    await response.body?.cancel();
    if (response.status === 404) return undefined;
    const length = response.headers.get("content-length");
    if (response.status !== 200 || !/^\d+$/.test(length ?? "")) {
      throw await refusal(`Cannot look for blob ${digest}`, host, response);
    }
    return { size: Number(length) };
  }

  /** The pages of a listing, first to last; a 404 ends it. */
  async function* pages(
    first: string,
    scope: string,
    signal?: AbortSignal,
  ): AsyncGenerator<{ body: Record<string, unknown>; missing: false } | { missing: true }> {
    let url: URL | undefined = new URL(first, transport.base);
    const seen = new Set<string>();
    while (url) {
      if (seen.has(url.href) || seen.size === MAX_PAGES) {
        throw new SvcError("upstream_failed", `Cannot list from ${host}: its pages have no end`);
      }
      seen.add(url.href);
      const response: Response = await transport.request(url, { scope, signal });
      if (response.status === 404) {
        await response.body?.cancel();
        return yield { missing: true };
      }
      if (response.status !== 200) throw await refusal(`Cannot list from ${host}`, host, response);
      const next = nextPage(response.headers.get("link"), url);
      const body = await readObject(response, MAX_PAGE_BYTES, `Cannot list from ${host}`)
        .catch((error) => Promise.reject(transport.failure(error)));
      yield { body, missing: false };
      if (next && next.origin !== transport.base.origin) {
        throw new SvcError(
          "upstream_failed",
          `Cannot list from ${host}: its next page is at another server, ${next.origin}`,
        );
      }
      url = next;
    }
  }

  async function putManifest(
    repository: string,
    mediaType: string,
    bytes: Uint8Array,
    tags: string[],
    call: ReadOptions = {},
  ): Promise<Descriptor> {
    const digest = digestOf(bytes);
    const subject = subjectOf(mediaType, bytes);
    let listed = subject === undefined;
    for (const reference of tags.length > 0 ? tags : [digest]) {
      const response = await transport.request(`${repository}/manifests/${reference}`, {
        method: "PUT",
        scope: push(repository),
        signal: call.signal,
        headers: { "content-type": mediaType },
        body: new Uint8Array(bytes),
      });
      if (response.status !== 201 && response.status !== 200) {
        throw await refusal(`Cannot push ${host}/${repository}:${reference}`, host, response);
      }
      await response.body?.cancel();
      listed ||= response.headers.has("oci-subject");
    }
    if (subject !== undefined && !listed) {
      // "Pushing Manifests with Subject": this registry leaves the listing to its clients.
      const tag = referrersTag(subject);
      const before = await resolve(repository, tag, call);
      const index = withReferrer(before?.bytes, mediaType, bytes, digest);
      if (index) await putManifest(repository, MEDIA.index, index, [tag], call);
    }
    return { mediaType, digest, size: bytes.length };
  }

  return {
    through: (via) => registryOver(transport.through(via)),
    resolve,
    head,
    stat,

    async get(repository, digest, call = {}) {
      parseDigest(digest);
      const found = await stat(repository, digest, call);
      if (!found) return undefined;
      const start = Math.min(call.range?.start ?? 0, found.size);
      const end = Math.min((call.range?.end ?? found.size - 1) + 1, found.size);
      if (call.range && start >= end) {
        throw new SvcError(
          "range_invalid",
          `Cannot read ${digest} from ${start}: it has ${found.size} bytes`,
        );
      }
      return {
        size: end - start,
        stream: () => {
          const bytes = download(transport, {
            path: `${repository}/blobs/${digest}`,
            scope: pull(repository),
            start,
            end,
            whole: call.range === undefined,
            signal: call.signal,
          });
          return call.range ? bytes : verified(bytes, digest, found.size);
        },
      };
    },

    async *tags(repository, call = {}) {
      const query = new URLSearchParams({ n: "1000" });
      if (call.after !== undefined) query.set("last", call.after);
      const all: string[] = [];
      const listing = pages(
        `${repository}/tags/list?${query}`,
        pull(repository),
        call.signal,
      );
      for await (const page of listing) {
        if (page.missing) continue;
        for (const tag of listOf(page.body.tags)) if (typeof tag === "string") all.push(tag);
        if (all.length > MAX_TAGS) {
          throw new SvcError("upstream_failed", `Cannot list from ${host}: its tags have no end`);
        }
      }
      // Registries differ in their order; the interface promises one.
      for (const tag of all.sort()) {
        if (call.after === undefined || tag > call.after) yield tag;
      }
    },

    async *referrers(repository, digest, call = {}) {
      const listing = pages(
        `${repository}/referrers/${digest}`,
        pull(repository),
        call.signal,
      );
      for await (const page of listing) {
        if (!page.missing) {
          yield* descriptorsOf(page.body.manifests);
          continue;
        }
        // "Referrers Tag Schema": registries before 1.1 keep the index under a tag.
        const fallback = await resolve(repository, referrersTag(digest), call);
        if (fallback) {
          const index = JSON.parse(new TextDecoder().decode(fallback.bytes)) as Partial<Index>;
          yield* descriptorsOf(index.manifests);
        }
      }
    },

    async hasBlob(repository, digest, call = {}) {
      return await stat(repository, digest, call) !== undefined;
    },

    async putBlob(repository, descriptor, body, call = {}) {
      const target = { transport, repository, scope: push(repository), signal: call.signal };
      await upload(target, descriptor.digest, verified(body, descriptor.digest, descriptor.size));
    },

    async mountBlob(repository, digest, from, call = {}) {
      const scope = from === repository ? push(repository) : `${push(repository)} ${pull(from)}`;
      return await mount({ transport, repository, scope, signal: call.signal }, digest, from);
    },

    putManifest,
  };
}
