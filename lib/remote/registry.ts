/** Another registry as an image source and sink (OCI Distribution Specification 1.1, client side). */
import { readAtMost } from "../base/collect.ts";
import { SvcError } from "../base/errors.ts";
import { isLoopbackHost } from "../base/host_port.ts";
import type { Logger } from "../base/log.ts";
import { digestOf, isDigest, parseDigest, verified } from "../oci/digest.ts";
import type {
  BlobBody,
  ByteRange,
  ImageSink,
  ImageSource,
  ReadOptions,
  ResolvedManifest,
} from "../oci/image.ts";
import { MAX_MANIFEST_BYTES } from "../oci/manifest.ts";
import { type Descriptor, type Digest, type Index, MEDIA } from "../oci/types.ts";
import type { Credentials } from "./auth.ts";
import { download } from "./download.ts";
import { pages } from "./pages.ts";
import { referrersTag, subjectOf, withReferrer } from "./referrers_tag.ts";
import { refusal, Transport } from "./transport.ts";
import { mount, upload } from "./upload.ts";

export interface RemoteRegistryOptions {
  /** "host[:port]"; "docker.io" is the registry of that name. */
  host: string;
  /** Use plain HTTP; default: only for hosts of the loopback interface. */
  plainHTTP?: boolean;
  /** Called only when the registry demands a login. */
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
   * The descriptor of a tag, without reading the manifest; without a digest where the registry sends none.
   * Undefined where the tag is missing.
   */
  head(
    repository: string,
    reference: string,
    options?: ReadOptions,
  ): Promise<{ digest?: Digest } | undefined>;
  /** Names of the repositories, where the registry lists them (`_catalog`). */
  repositories(options?: ReadOptions): AsyncIterable<string>;
  /** Deletes a tag, or a manifest by its digest. False where it is not there. */
  deleteManifest(repository: string, reference: string, options?: ReadOptions): Promise<boolean>;
  /** The same registry for another client's request, with this Via field (RFC 9110 7.6.3). */
  through(via: string): RemoteRegistry;
}

const ACCEPT = [MEDIA.manifest, MEDIA.index, MEDIA.dockerManifest, MEDIA.dockerList].join(", ");
/** Most names of one listing; they are sorted in memory. */
const MAX_TAGS = 1_000_000;

const listOf = (value: unknown): unknown[] => Array.isArray(value) ? value : [];

/** The well-formed descriptors of a list from a registry. */
function descriptorsOf(value: unknown): Descriptor[] {
  return (listOf(value) as Partial<Descriptor>[]).filter((item): item is Descriptor =>
    typeof item?.digest === "string" && isDigest(item.digest) &&
    typeof item.mediaType === "string" && typeof item.size === "number"
  );
}

function mediaTypeOf(response: Response, bytes: Uint8Array): string {
  const declared = response.headers.get("content-type")?.split(";")[0].trim();
  if (declared && declared !== "application/json" && !declared.startsWith("text/")) return declared;
  try {
    const json = JSON.parse(new TextDecoder().decode(bytes)) as Partial<Index>;
    return json.mediaType ?? (Array.isArray(json.manifests) ? MEDIA.index : MEDIA.manifest);
  } catch {
    return MEDIA.manifest; // parsing it later gives the error
  }
}

/**
 * A client of one registry; it keeps tokens and no other state. A blob's stream resumes with a range after a
 * broken connection, and is verified as it passes. Failures: `unauthorized`, `denied`, `upstream_failed`,
 * `timeout`, `unavailable` (rate limit), and the errors of digests.
 */
export function createRemoteRegistry(options: RemoteRegistryOptions): RemoteRegistry {
  return new Registry(
    new Transport({
      ...options,
      plainHTTP: options.plainHTTP ?? isLoopbackHost(options.host),
      credentials: options.credentials ?? (() => Promise.resolve(undefined)),
    }),
  );
}

const pull = (repository: string) => `repository:${repository}:pull`;
const push = (repository: string) => `repository:${repository}:pull,push`;

class Registry implements RemoteRegistry {
  readonly #transport: Transport;
  readonly #host: string;

  constructor(transport: Transport) {
    this.#transport = transport;
    this.#host = transport.host;
  }

  through(via: string): RemoteRegistry {
    return new Registry(this.#transport.through(via));
  }

  async resolve(
    repository: string,
    reference: string,
    call: { signal?: AbortSignal } = {},
  ): Promise<ResolvedManifest | undefined> {
    const what = `Cannot read ${this.#host}/${repository}${
      isDigest(reference) ? "@" : ":"
    }${reference}`;
    const response = await this.#transport.request(`${repository}/manifests/${reference}`, {
      scope: pull(repository),
      headers: { accept: ACCEPT },
      signal: call.signal,
    });
    if (response.status === 404) return void await response.body?.cancel();
    if (response.status !== 200) throw await refusal(what, this.#host, response);
    const tooLarge = () =>
      new SvcError("manifest_too_large", `${what}: it has more than ${MAX_MANIFEST_BYTES} bytes`);
    const bytes = await readAtMost(response.body, MAX_MANIFEST_BYTES, tooLarge)
      .catch((error) => Promise.reject(this.#transport.failure(error)));
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

  async head(
    repository: string,
    reference: string,
    call: ReadOptions = {},
  ): Promise<{ digest?: Digest } | undefined> {
    const response = await this.#transport.request(`${repository}/manifests/${reference}`, {
      method: "HEAD",
      scope: pull(repository),
      headers: { accept: ACCEPT },
      signal: call.signal,
    });
    await response.body?.cancel();
    if (response.status === 404) return undefined;
    if (response.status !== 200) {
      throw await refusal(
        `Cannot look for ${this.#host}/${repository}:${reference}`,
        this.#host,
        response,
      );
    }
    const digest = response.headers.get("docker-content-digest") ?? "";
    return isDigest(digest) ? { digest } : {};
  }

  async stat(
    repository: string,
    digest: string,
    call: { signal?: AbortSignal } = {},
  ): Promise<{ size: number } | undefined> {
    const response = await this.#transport.request(`${repository}/blobs/${digest}`, {
      method: "HEAD",
      scope: pull(repository),
      signal: call.signal,
    });
    await response.body?.cancel();
    if (response.status === 404) return undefined;
    const length = response.headers.get("content-length");
    if (response.status !== 200 || !/^\d+$/.test(length ?? "")) {
      throw await refusal(`Cannot look for blob ${digest}`, this.#host, response);
    }
    return { size: Number(length) };
  }

  async putManifest(
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
      const response = await this.#transport.request(`${repository}/manifests/${reference}`, {
        method: "PUT",
        scope: push(repository),
        signal: call.signal,
        headers: { "content-type": mediaType },
        body: new Uint8Array(bytes),
      });
      if (response.status !== 201 && response.status !== 200) {
        throw await refusal(
          `Cannot push ${this.#host}/${repository}:${reference}`,
          this.#host,
          response,
        );
      }
      await response.body?.cancel();
      listed ||= response.headers.has("oci-subject");
    }
    if (subject !== undefined && !listed) {
      // "Pushing Manifests with Subject": for this registry the client has to update the referrers index.
      const tag = referrersTag(subject);
      const before = await this.resolve(repository, tag, call);
      const index = withReferrer(before?.bytes, mediaType, bytes, digest);
      if (index) await this.putManifest(repository, MEDIA.index, index, [tag], call);
    }
    return { mediaType, digest, size: bytes.length };
  }

  async get(
    repository: string,
    digest: Digest,
    call: ReadOptions & { range?: ByteRange } = {},
  ): Promise<BlobBody | undefined> {
    parseDigest(digest);
    const found = await this.stat(repository, digest, call);
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
        const bytes = download(this.#transport, {
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
  }

  async *tags(
    repository: string,
    call: ReadOptions & { after?: string } = {},
  ): AsyncGenerator<string> {
    const query = new URLSearchParams({ n: "1000" });
    if (call.after !== undefined) query.set("last", call.after);
    const all: string[] = [];
    const listing = pages(
      this.#transport,
      `${repository}/tags/list?${query}`,
      pull(repository),
      call.signal,
    );
    for await (const page of listing) {
      if (page.missing) continue;
      for (const tag of listOf(page.body.tags)) if (typeof tag === "string") all.push(tag);
      if (all.length > MAX_TAGS) {
        throw new SvcError(
          "upstream_failed",
          `Cannot list from ${this.#host}: its tags have no end`,
        );
      }
    }
    // Registries differ in the order of tags; the interface promises byte order.
    for (const tag of all.sort()) {
      if (call.after === undefined || tag > call.after) yield tag;
    }
  }

  async *repositories(call: ReadOptions = {}): AsyncGenerator<string> {
    const scope = "registry:catalog:*";
    for await (const page of pages(this.#transport, "_catalog?n=1000", scope, call.signal)) {
      if (page.missing) continue;
      for (const name of listOf(page.body.repositories)) if (typeof name === "string") yield name;
    }
  }

  async deleteManifest(
    repository: string,
    reference: string,
    call: ReadOptions = {},
  ): Promise<boolean> {
    const response = await this.#transport.request(`${repository}/manifests/${reference}`, {
      method: "DELETE",
      scope: `repository:${repository}:delete`,
      signal: call.signal,
    });
    if (response.status !== 202 && response.status !== 200 && response.status !== 404) {
      const what = `Cannot delete ${this.#host}/${repository}:${reference}`;
      throw await refusal(what, this.#host, response);
    }
    await response.body?.cancel();
    return response.status !== 404;
  }

  async *referrers(
    repository: string,
    digest: Digest,
    call: ReadOptions = {},
  ): AsyncGenerator<Descriptor> {
    const listing = pages(
      this.#transport,
      `${repository}/referrers/${digest}`,
      pull(repository),
      call.signal,
    );
    for await (const page of listing) {
      if (!page.missing) {
        yield* descriptorsOf(page.body.manifests);
        continue;
      }
      // "Referrers Tag Schema": a registry without the referrers API has the index under a tag.
      const fallback = await this.resolve(repository, referrersTag(digest), call);
      if (fallback) {
        const index = JSON.parse(new TextDecoder().decode(fallback.bytes)) as Partial<Index>;
        yield* descriptorsOf(index.manifests);
      }
    }
  }

  async hasBlob(repository: string, digest: Digest, call: ReadOptions = {}): Promise<boolean> {
    return await this.stat(repository, digest, call) !== undefined;
  }

  async putBlob(
    repository: string,
    descriptor: Pick<Descriptor, "digest" | "size">,
    body: ReadableStream<Uint8Array>,
    call: ReadOptions = {},
  ): Promise<void> {
    const target = {
      transport: this.#transport,
      repository,
      scope: push(repository),
      signal: call.signal,
    };
    await upload(target, descriptor.digest, verified(body, descriptor.digest, descriptor.size));
  }

  async mountBlob(
    repository: string,
    digest: Digest,
    from: string,
    call: ReadOptions = {},
  ): Promise<boolean> {
    const scope = from === repository ? push(repository) : `${push(repository)} ${pull(from)}`;
    return await mount(
      { transport: this.#transport, repository, scope, signal: call.signal },
      digest,
      from,
    );
  }
}
