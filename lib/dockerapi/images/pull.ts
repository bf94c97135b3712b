/** `POST /images/create`: an image of another registry becomes one of the server's. */
import type { SvcError } from "../../base/errors.ts";
import { formatPlatform, hostPlatform, parsePlatform } from "../../oci/platform.ts";
import { formatReference } from "../../oci/reference.ts";
import type { DockerApi } from "../api.ts";
import { isCode, notFound, unsupported } from "../errors.ts";
import { streamed, type Tell } from "../messages.ts";
import type { Answer, Call } from "../route.ts";
import { imagesOf, registriesOf } from "./access.ts";
import { copyTo, PULLING } from "./copying.ts";
import { shownName, storedName, type UpstreamName, upstreamName } from "./names.ts";

/** The name that the query means: `tag` may be a tag or a digest. */
function wantedName(query: URLSearchParams): string {
  const name = query.get("fromImage")!;
  const tag = query.get("tag");
  if (!tag) return name;
  return tag.includes(":") ? `${name}@${tag}` : `${name}:${tag}`;
}

/** An error of a registry for an image that is not there, in docker's words. */
function missing({ host, repository }: UpstreamName, cause?: unknown): SvcError {
  const name = host === "docker.io"
    ? repository.replace(/^library\//, "")
    : `${host}/${repository}`;
  return notFound(
    `pull access denied for ${name}, repository does not exist or may require 'docker login'`,
    cause,
  );
}

class Pull {
  constructor(
    private readonly api: DockerApi,
    private readonly call: Call,
    private readonly tell: Tell,
  ) {}

  async run(name: string): Promise<void> {
    const { api, call, tell } = this;
    const { signal } = call;
    const { own, store } = await imagesOf(api);
    const upstream = upstreamName(name);
    const to = storedName(name, own);
    if (own.includes(upstream.host)) return await this.#own(name);
    const registries = registriesOf(api, call, upstream.host);
    const registry = registries.get(upstream.host);
    const tag = upstream.tag ?? (upstream.digest === undefined ? "latest" : undefined);
    const top = await registry.resolve(upstream.repository, upstream.digest ?? tag!, { signal })
      .catch((error) => {
        throw isCode(error, "unauthorized", "denied") ? missing(upstream, error) : error;
      });
    if (!top) {
      if (tag === undefined || !await this.#hasTags(registry.tags(upstream.repository))) {
        throw missing(upstream);
      }
      const full = formatReference({ registry: upstream.host, ...upstream, tag });
      throw notFound(`manifest for ${full} not found: manifest unknown`);
    }
    tell({ status: `Pulling from ${upstream.repository}`, id: tag ?? upstream.digest });
    const before = await store.byName(shownName(to), signal);
    const text = call.query.get("platform");
    const platform = formatPlatform(text ? parsePlatform(text) : hostPlatform());
    const label = formatReference({ registry: upstream.host, ...upstream, tag });
    const { host, repository } = upstream;
    const origin = { source: registry, repository, host, label };
    // An image that is named by the digest of its index has to keep that index.
    const whole = upstream.digest !== undefined;
    const root = await copyTo({
      ...{ origin, top, to, registries, words: PULLING, tell, signal },
      ...!whole && this.#chooses(top.descriptor.mediaType, text) && { platform },
    });
    const { digest } = root.descriptor;
    tell({ status: `Digest: ${digest}` });
    const state = before?.root === digest ? "Image is up to date" : "Downloaded newer image";
    tell({ status: `Status: ${state} for ${shownName(to)}` });
    api.events.tell("image", "pull", shownName(to), { name: shownName(to) });
  }

  /** A single image is taken as it is, unless a platform is asked for. */
  #chooses(mediaType: string, asked: string | null): boolean {
    return !!asked || /index|list/.test(mediaType);
  }

  async #hasTags(tags: AsyncIterable<string>): Promise<boolean> {
    try {
      for await (const _tag of tags) return true;
    } catch {
      // A registry that lists none to this caller: whether there is such a repository stays open.
    }
    return false;
  }

  /** The server's own image is there already, or it is nowhere. */
  async #own(name: string): Promise<void> {
    const { store } = await imagesOf(this.api);
    const image = await store.byName(name, this.call.signal);
    if (!image) throw missing(upstreamName(name));
    this.tell({ status: `Digest: ${image.root}` });
    this.tell({ status: `Status: Image is up to date for ${name}` });
  }
}

export async function pullImage(call: Call, api: DockerApi): Promise<Answer> {
  if (!call.query.get("fromImage")) {
    throw unsupported(
      "svc cannot import a file system as an image",
      "build it with a Dockerfile: FROM scratch, ADD rootfs.tar /",
    );
  }
  const name = wantedName(call.query);
  upstreamName(name);
  return await streamed((tell) => new Pull(api, call, tell).run(name), call.signal);
}
