/** The routes of images. Where images are: the server's registry (names.ts). */
import { manifestKind } from "../../oci/manifest.ts";
import type { Index } from "../../oci/types.ts";
import type { DockerApi } from "../api.ts";
import { refusing } from "../refused.ts";
import { checkFilters } from "../filters.ts";
import type { Answer, Call } from "../request.ts";
import type { ApiRoute } from "../route.ts";
import { imagesOf, registriesOf } from "./access.ts";
import { pruneImages, removeImage, tagImage } from "./change.ts";
import { filterImages } from "./filters.ts";
import { loadImages } from "./load.ts";
import { upstreamName } from "./names.ts";
import { pullImage } from "./pull.ts";
import { pushImage } from "./push.ts";
import { saveImages } from "./save.ts";
import { details, history, summary } from "./shapes.ts";
import { createdOf, noSuchImage } from "./store.ts";

const KNOWN = ["dangling", "label", "before", "since", "reference", "until"];

async function list(call: Call, api: DockerApi): Promise<Answer> {
  const filters = new Map(call.filters());
  checkFilters(filters, KNOWN);
  // Clients before API 1.25 name what they look for in this way.
  const wanted = call.query.get("filter");
  if (wanted) filters.set("reference", [...filters.get("reference") ?? [], wanted]);
  const { store } = await imagesOf(api);
  const images = await store.list(call.signal);
  const times = new Map<string, number>();
  for (const name of [...filters.get("before") ?? [], ...filters.get("since") ?? []]) {
    times.set(name, createdOf((await store.need(name, call.signal)).config));
  }
  const shown = filterImages(images, filters, (name) => times.get(name)!);
  return { json: shown.map((image) => summary(image, call.version)) };
}

async function inspect(call: Call, api: DockerApi): Promise<Answer> {
  const { store } = await imagesOf(api);
  return { json: details(await store.need(call.params.name, call.signal), call.version) };
}

async function steps(call: Call, api: DockerApi): Promise<Answer> {
  const { store } = await imagesOf(api);
  return { json: history(await store.need(call.params.name, call.signal)) };
}

/** What a registry has under a name, without pulling it. */
async function distribution(call: Call, api: DockerApi): Promise<Answer> {
  const { signal, params: { name } } = call;
  const { own } = await imagesOf(api);
  const { host, repository, tag, digest } = upstreamName(name);
  const registry = registriesOf(api, call, host).get(own.includes(host) ? undefined : host);
  const found = await registry.resolve(repository, digest ?? tag ?? "latest", { signal });
  if (!found) throw noSuchImage(name);
  const { descriptor, bytes } = found;
  const platforms = manifestKind(descriptor.mediaType) === "index"
    ? (JSON.parse(new TextDecoder().decode(bytes)) as Index).manifests
      .flatMap(({ platform }) => platform ?? [])
    : [];
  return { json: { Descriptor: descriptor, Platforms: platforms } };
}

export const IMAGE_ROUTES: readonly ApiRoute[] = [
  { method: "GET", path: "/images/json", handler: list },
  { method: "POST", path: "/images/create", handler: pullImage },
  { method: "POST", path: "/images/load", handler: loadImages },
  { method: "POST", path: "/images/prune", handler: pruneImages },
  { method: "GET", path: "/images/get", handler: saveImages },
  {
    method: "GET",
    path: "/images/search",
    handler: refusing(
      "search for images: registries have no common way to",
      "look at the registry's own pages",
    ),
  },
  {
    method: "POST",
    path: "/commit",
    handler: refusing(
      "make an image of a container's changes (docker commit)",
      "write the changes as a Dockerfile and build it",
    ),
  },
  { method: "GET", path: "/distribution/{name*}/json", handler: distribution },
  { method: "GET", path: "/images/{name*}/json", handler: inspect },
  { method: "GET", path: "/images/{name*}/history", handler: steps },
  { method: "GET", path: "/images/{name*}/get", handler: saveImages },
  { method: "POST", path: "/images/{name*}/tag", handler: tagImage },
  { method: "POST", path: "/images/{name*}/push", handler: pushImage },
  { method: "DELETE", path: "/images/{name*}", handler: removeImage },
];
