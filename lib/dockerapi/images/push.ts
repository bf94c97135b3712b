/** `POST /images/{name}/push`: an image of the server's goes to the registry of its name, with the caller's login. */
import type { DockerApi } from "../api.ts";
import { streamed, type Tell } from "../messages.ts";
import { imagesOf, registriesOf } from "./access.ts";
import { copyTo, ownOrigin, PUSHING } from "./copying.ts";
import { shownName, type StoredName, storedName, upstreamName } from "./names.ts";
import { noSuchImage } from "./store.ts";
import type { Answer, Call } from "../request.ts";

async function push(api: DockerApi, call: Call, given: string, tell: Tell): Promise<void> {
  const { signal } = call;
  const { store, own } = await imagesOf(api);
  const tag = call.query.get("tag") || undefined;
  const { repository } = storedName(given, own);
  const tags: string[] = [];
  if (tag !== undefined) tags.push(tag);
  else for await (const each of store.registry.tags(repository, { signal })) tags.push(each);
  if (tags.length === 0) throw noSuchImage(given);
  const upstream = upstreamName(given);
  const registries = registriesOf(api, call, upstream.host);
  for (const each of tags) {
    const name: StoredName = { repository, tag: each };
    const image = await store.byName(shownName(name), signal);
    if (!image) throw noSuchImage(shownName(name));
    tell({ status: `The push refers to repository [${upstream.host}/${upstream.repository}]` });
    const label = shownName(name);
    const { origin, top } = await ownOrigin(registries, image, label, signal);
    // In the server's own registry it is already.
    if (!own.includes(upstream.host)) {
      const to = { repository: upstream.repository, tag: each };
      const { host } = upstream;
      await copyTo({ origin, top, host, to, registries, words: PUSHING, tell, signal });
    }
    const { digest, size } = top.descriptor;
    tell({ status: `${each}: digest: ${digest} size: ${size}` });
    tell({ progressDetail: {}, aux: { Tag: each, Digest: digest, Size: size } });
    api.events.tell("image", "push", label, { name: label });
  }
}

export async function pushImage(call: Call, api: DockerApi): Promise<Answer> {
  return await streamed((tell) => push(api, call, call.params.name, tell), call.signal);
}
