/** `docker tag`, `docker rmi` and `docker image prune`. */
import type { DockerApi } from "../api.ts";
import { conflict, invalid, unsupported } from "../errors.ts";
import { checkFilters, isTrue } from "../filters.ts";
import { short } from "../ids.ts";
import { imagesOf, registriesFor } from "./access.ts";
import { copyTo, ownOrigin, PULLING } from "./copying.ts";
import { filterImages } from "./filters.ts";
import { shownName, type StoredName, storedName } from "./names.ts";
import { type ImageStore, type StoredImage } from "./store.ts";
import type { Answer, Call } from "../request.ts";

export async function tagImage(call: Call, api: DockerApi): Promise<Answer> {
  const { signal, query, params } = call;
  const { store, own } = await imagesOf(api);
  const image = await store.need(params.name, signal);
  const repo = query.get("repo");
  if (!repo) throw invalid("Cannot tag: repo is missing");
  const tag = query.get("tag") || undefined;
  const to = storedName(tag === undefined ? repo : `${repo}:${tag}`, own);
  if (to.digest !== undefined) {
    throw invalid("refusing to create a tag with a digest reference");
  }
  const registries = registriesFor(api, signal);
  const { origin, top } = await ownOrigin(registries, image, params.name, signal);
  await copyTo({ origin, top, to, registries, words: PULLING, tell: () => {}, signal });
  api.events.tell("image", "tag", image.id, { name: shownName(to) });
  return { status: 201 };
}

async function untag(store: ImageStore, name: StoredName, signal: AbortSignal): Promise<void> {
  await store.registry.deleteManifest(name.repository, name.tag ?? name.digest!, { signal });
}

const mustBeForced = ({ id }: StoredImage, why: string) =>
  conflict(`conflict: unable to delete ${id.slice(7, 19)} (must be forced) - ${why}`);

/** Throws `conflict` in docker's words for an image that a container was made of. */
function refuseUsed({ containers }: DockerApi, image: StoredImage): void {
  const user = containers.records.find(({ imageId }) => imageId === image.id);
  if (!user) return;
  throw mustBeForced(image, `container ${short(user.id)} is using it`);
}

/** All names of the image go. The server's collection of garbage takes what nothing names. */
async function removeAll(
  api: DockerApi,
  store: ImageStore,
  image: StoredImage,
  signal: AbortSignal,
) {
  const gone: Record<string, string>[] = [];
  for (const name of [...image.names, ...image.hidden]) {
    await untag(store, name, signal);
    if (!image.hidden.includes(name)) gone.push({ Untagged: shownName(name) });
  }
  api.events.tell("image", "delete", image.id, { name: image.id });
  return [...gone, { Deleted: image.id }];
}

export async function removeImage(call: Call, api: DockerApi): Promise<Answer> {
  const { signal, params: { name } } = call;
  const { store, own } = await imagesOf(api);
  const image = await store.need(name, signal);
  const byId = image.id.replace("sha256:", "").startsWith(name.replace("sha256:", ""));
  const named = byId ? undefined : storedName(name, own);
  const same = (other: StoredName) =>
    other.repository === named?.repository && other.tag === named.tag;
  const others = image.names.filter((other) => !same(other));
  if (named?.tag !== undefined && others.length > 0) {
    await untag(store, named, signal);
    api.events.tell("image", "untag", image.id, { name: shownName(named) });
    return { json: [{ Untagged: shownName(named) }] };
  }
  const repositories = new Set(image.names.map(({ repository }) => repository));
  if (byId && repositories.size > 1 && !call.flag("force")) {
    throw mustBeForced(image, "image is referenced in multiple repositories");
  }
  if (!call.flag("force")) refuseUsed(api, image);
  return { json: await removeAll(api, store, image, signal) };
}

/** Images without a name alone: others may be another user's of the same server. */
export async function pruneImages(call: Call, api: DockerApi): Promise<Answer> {
  const { signal } = call;
  const filters = call.filters();
  checkFilters(filters, ["dangling", "label", "label!", "until"]);
  if ((filters.get("dangling") ?? []).some((text) => !isTrue(text))) {
    throw unsupported(
      "svc does not prune images that have names: who uses the server's registry is not known here",
      "remove them by name",
    );
  }
  const { store } = await imagesOf(api);
  const unnamed = (await store.list(signal)).filter(({ names }) => names.length === 0);
  const gone: Record<string, string>[] = [];
  let SpaceReclaimed = 0;
  const used = new Set(api.containers.records.map(({ imageId }) => imageId));
  for (const image of filterImages(unnamed, filters, () => 0)) {
    if (used.has(image.id)) continue;
    gone.push(...await removeAll(api, store, image, signal));
    SpaceReclaimed += image.size;
  }
  return { json: { ImagesDeleted: gone.length > 0 ? gone : null, SpaceReclaimed } };
}
