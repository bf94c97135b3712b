/** `POST /images/create`: an image of another registry becomes one of the server's. */
import type { SvcError } from "../../base/errors.ts";
import { formatPlatform, hostPlatform, parsePlatform } from "../../oci/platform.ts";
import { formatReference } from "../../oci/reference.ts";
import type { DockerApi } from "../api.ts";
import { isCode, notFound, unsupported } from "../errors.ts";
import { streamed, type Tell } from "../messages.ts";
import { imagesOf, registriesOf } from "./access.ts";
import { copyTo, PULLING } from "./copying.ts";
import type { StoredImage } from "./store.ts";
import { shownName, storedName, type UpstreamName, upstreamName } from "./names.ts";
import type { Answer, Call } from "../request.ts";

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

async function hasTags(tags: AsyncIterable<string>): Promise<boolean> {
  try {
    for await (const _tag of tags) return true;
  } catch {
    // A registry that lists none to this caller: whether there is such a repository stays open.
  }
  return false;
}

/** The server's own image is there already, or it is nowhere. */
function tellOwn(image: StoredImage | undefined, name: string, tell: Tell): void {
  if (!image) throw missing(upstreamName(name));
  tell({ status: `Digest: ${image.root}` });
  tell({ status: `Status: Image is up to date for ${name}` });
}

async function pull(api: DockerApi, call: Call, name: string, tell: Tell): Promise<void> {
  const { signal } = call;
  const { own, store } = await imagesOf(api);
  const upstream = upstreamName(name);
  const { host, repository, digest: wanted } = upstream;
  const to = storedName(name, own);
  if (own.includes(host)) return tellOwn(await store.byName(name, signal), name, tell);
  const registries = registriesOf(api, call, host);
  const source = registries.get(host);
  const tag = upstream.tag ?? (wanted === undefined ? "latest" : undefined);
  const top = await source.resolve(repository, wanted ?? tag!, { signal }).catch((error) => {
    throw isCode(error, "unauthorized", "denied") ? missing(upstream, error) : error;
  });
  const label = formatReference({ registry: host, ...upstream, tag });
  if (!top) {
    if (tag === undefined || !await hasTags(source.tags(repository))) throw missing(upstream);
    throw notFound(`manifest for ${label} not found: manifest unknown`);
  }
  tell({ status: `Pulling from ${repository}`, id: tag ?? wanted });
  const before = await store.byName(shownName(to), signal);
  const text = call.query.get("platform");
  const platform = formatPlatform(text ? parsePlatform(text) : hostPlatform());
  // A single image is taken as it is, unless a platform is asked for. One that is named by the digest of its index
  // has to keep that index.
  const chooses = wanted === undefined && (text || /index|list/.test(top.descriptor.mediaType));
  const { descriptor: { digest } } = await copyTo({
    ...{ origin: { source, repository, host, label }, top, to, registries },
    ...{ words: PULLING, tell, signal, ...chooses && { platform } },
  });
  tell({ status: `Digest: ${digest}` });
  const state = before?.root === digest ? "Image is up to date" : "Downloaded newer image";
  tell({ status: `Status: ${state} for ${shownName(to)}` });
  api.events.tell("image", "pull", shownName(to), { name: shownName(to) });
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
  return await streamed((tell) => pull(api, call, name, tell), call.signal);
}
