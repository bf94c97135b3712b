/** What the handlers' tests share: rows over a store in memory, dispatched without a listener. */
import { openMemStore } from "../../backends/store/mem.ts";
import type { Context } from "../api/route.ts";
import { silent } from "../base/log.ts";
import { digestOf } from "../oci/digest.ts";
import { MEDIA } from "../oci/types.ts";
import { Router } from "../server/router.ts";
import { createContentStore } from "../store/content.ts";
import type { ContentStore } from "../store/content_store.ts";
import { createRegistry } from "./registry.ts";
import type { RegistryOptions } from "./request.ts";
import type { RegistryView } from "./view.ts";

export const bytesOf = (text: string) => new TextEncoder().encode(text);
export const digest = (text: string) => digestOf(bytesOf(text));

/** `served` stands between the handlers and `store`, where it is not the store itself. */
export function registry(
  store: ContentStore = createContentStore(openMemStore(), { log: silent }),
  served: RegistryView = { reader: store, writer: store },
  options: Omit<RegistryOptions, keyof RegistryView> = {},
) {
  const router = new Router(createRegistry({ ...served, ...options }));
  const send = async (
    method: string,
    path: string,
    init: { body?: BodyInit; headers?: Record<string, string>; signal?: AbortSignal } = {},
  ): Promise<Response> => {
    const url = new URL(path, "http://registry.test");
    const request = new Request(url, { method, duplex: "half", ...init } as RequestInit);
    const match = router.match(method, url.pathname);
    if (match.kind !== "found") return new Response(null, { status: 404 });
    const context: Context = {
      request,
      url,
      params: match.params,
      identity: { subject: "", scopes: [] },
      connection: {
        remote: "127.0.0.1:1",
        blob: (body, { status, headers }) =>
          new Response(body.stream() as BodyInit, { status, headers }),
        upgrade: () => {
          throw new Error("not here");
        },
      },
      log: silent,
      signal: init.signal ?? request.signal,
    };
    return await match.route.handler(context);
  };
  const pushBlob = async (repository: string, text: string) => {
    const response = await send(
      "POST",
      `/v2/${repository}/blobs/uploads/?digest=${digest(text)}`,
      { body: text },
    );
    await response.body?.cancel();
    if (response.status !== 201) throw new Error(`push: ${response.status}`);
    return { mediaType: MEDIA.layerGzip, digest: digest(text), size: bytesOf(text).length };
  };
  /** The text of a manifest whose blobs are pushed. */
  const image = async (repository: string, seed: string, extra: Record<string, unknown> = {}) =>
    JSON.stringify({
      schemaVersion: 2,
      mediaType: MEDIA.manifest,
      config: { ...await pushBlob(repository, `{"s":"${seed}"}`), mediaType: MEDIA.config },
      layers: [await pushBlob(repository, `layer ${seed}`)],
      ...extra,
    });
  const pushManifest = (repository: string, reference: string, text: string, query = "") =>
    send("PUT", `/v2/${repository}/manifests/${reference}${query}`, {
      body: text,
      headers: { "content-type": MEDIA.manifest },
    });
  return { store, send, pushBlob, image, pushManifest };
}

/** Status and first error code. */
export async function failure(response: Response): Promise<string> {
  const { errors } = await response.json();
  return `${response.status} ${errors[0].code}`;
}

/** Follows Link headers to the end. */
export async function pages<T = string>(
  { send }: Pick<ReturnType<typeof registry>, "send">,
  path: string,
  member: string,
): Promise<T[][]> {
  const found: T[][] = [];
  for (let next: string | undefined = path; next;) {
    const response: Response = await send("GET", next);
    if (response.status !== 200) throw new Error(`${next}: ${response.status}`);
    found.push((await response.json())[member]);
    const link: string | null = response.headers.get("link");
    next = link === null ? undefined : /^<(\/v2\/[^>]+)>; rel="next"$/.exec(link)![1];
  }
  return found;
}
