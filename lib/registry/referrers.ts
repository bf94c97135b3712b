/** Referrers of a manifest, in pages (distribution specification "Listing Referrers"). */
import type { Context, Route } from "../api/route.ts";
import { parseDigest } from "../oci/digest.ts";
import { MAX_MANIFEST_BYTES } from "../oci/manifest.ts";
import { type Descriptor, MEDIA } from "../oci/types.ts";
import { limitOf } from "./listings.ts";
import { guarded, lookOf, type RegistryOptions, reply, repositoryOf } from "./request.ts";

const HEAD = `{"schemaVersion":2,"mediaType":"${MEDIA.index}","manifests":[`;
const TAIL = "]}";

/** Bytes of a page. Clients read a page as an index, and refuse a larger one. */
const PAGE_BYTES = MAX_MANIFEST_BYTES - HEAD.length - TAIL.length;

const encoder = new TextEncoder();

/** A descriptor that alone exceeds a page is listed without its annotations. */
function encodeEntry(descriptor: Descriptor): Uint8Array {
  const bytes = encoder.encode(JSON.stringify(descriptor));
  if (bytes.length <= PAGE_BYTES) return bytes;
  return encoder.encode(JSON.stringify({ ...descriptor, annotations: undefined }));
}

function concatenated(entries: Uint8Array[], size: number): Uint8Array {
  const page = new Uint8Array(HEAD.length + size + TAIL.length);
  let at = encoder.encodeInto(HEAD, page).written;
  for (const [index, entry] of entries.entries()) {
    if (index > 0) page[at++] = 0x2c;
    page.set(entry, at);
    at += entry.length;
  }
  encoder.encodeInto(TAIL, page.subarray(at));
  return page;
}

export function referrerRoutes({ reader }: RegistryOptions): Route[] {
  const referrers = async (context: Context): Promise<Response> => {
    const { url, params: { digest } } = context;
    const name = repositoryOf(context);
    parseDigest(digest);
    const limit = limitOf(url);
    const after = url.searchParams.get("last") ?? undefined;
    if (after !== undefined) parseDigest(after);
    const wanted = url.searchParams.getAll("artifactType").filter((type) => type !== "");
    const entries: Uint8Array[] = [];
    /** Bytes of the entries and the commas between them. */
    let size = 0;
    let last: string | undefined;
    let more = false;
    const all = limit === 0 ? [] : reader.referrers(name, digest, { ...lookOf(context), after });
    for await (const descriptor of all) {
      if (wanted.length > 0 && !wanted.includes(descriptor.artifactType ?? "")) continue;
      const entry = encodeEntry(descriptor);
      const grown = size + entry.length + (entries.length > 0 ? 1 : 0);
      more = entries.length === limit || grown > PAGE_BYTES;
      if (more) break;
      entries.push(entry);
      size = grown;
      last = descriptor.digest;
    }
    const query = new URLSearchParams({ n: String(limit), last: last ?? "" });
    for (const type of wanted) query.append("artifactType", type);
    const bytes = concatenated(entries, size);
    return reply(200, {
      "content-type": MEDIA.index,
      "content-length": String(bytes.length),
      "oci-filters-applied": wanted.length > 0 ? "artifactType" : undefined,
      link: more ? `<${url.pathname}?${query}>; rel="next"` : undefined,
    }, bytes);
  };

  return [{
    method: "GET",
    path: "/v2/{name+}/referrers/{digest}",
    action: "pull",
    help: "Manifests whose subject is the digest, by their digests; ?artifactType= filters, " +
      "?n= and ?last= page through them. No page has more than 4 MiB.",
    handler: guarded(referrers),
  }];
}
