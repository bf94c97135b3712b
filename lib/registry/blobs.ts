/** Blobs: GET and HEAD with ranges, DELETE (distribution specification "Pulling blobs", "Deleting Blobs"). */
import type { Context, Route } from "../api/route.ts";
import { SvcError } from "../base/errors.ts";
import { parseDigest } from "../oci/digest.ts";
import type { Digest } from "../oci/types.ts";
import { registryError } from "./errors.ts";
import { parseRange } from "./range.ts";
import {
  empty,
  guarded,
  headersOf,
  lookOf,
  notModified,
  type RegistryOptions,
  reply,
  repositoryOf,
  writing,
} from "./request.ts";
import type { RegistryWriter } from "./view.ts";

function digestParam(context: Context): Digest {
  const { digest } = context.params;
  parseDigest(digest);
  return digest;
}

function unknown(repository: string, digest: Digest): SvcError {
  return new SvcError("blob_unknown", `Cannot find blob ${digest} in ${repository}: not pushed`, {
    detail: { digest },
  });
}

/** Seconds for which a signed address of the storage can begin a download. */
const SIGNED_SECONDS = 1200;

/**
 * A redirect to the storage. Undefined: this server sends the bytes. HEAD is never redirected: some clients
 * would not follow.
 */
async function elsewhere(
  context: Context,
  digest: Digest,
  { reader, redirectBlobs }: RegistryOptions,
): Promise<Response | undefined> {
  const { request, signal } = context;
  if (!redirectBlobs || request.method !== "GET" || request.headers.has("if-none-match")) {
    return undefined;
  }
  const location = await reader.signedUrl?.(digest, { seconds: SIGNED_SECONDS, signal });
  if (location === undefined) return undefined;
  // The signed address expires before a cache entry would.
  const fields = { location, "docker-content-digest": digest, "cache-control": "no-store" };
  return empty(307, fields);
}

async function get(context: Context, options: RegistryOptions): Promise<Response> {
  const { reader } = options;
  const { request } = context;
  const repository = repositoryOf(context);
  const digest = digestParam(context);
  const etag = `"${digest}"`;
  const redirect = await elsewhere(context, digest, options);
  if (redirect) return redirect;
  const look = lookOf(context);
  const info = await reader.stat(repository, digest, look);
  if (!info) throw unknown(repository, digest);
  const fields = {
    "docker-content-digest": digest,
    etag,
    // The content of a digest never changes.
    "cache-control": "max-age=31536000, immutable",
    "accept-ranges": "bytes",
  };
  if (notModified(request, etag)) return empty(304, fields);
  let range;
  try {
    const condition = request.headers.get("if-range");
    range = condition === null || condition === etag
      ? parseRange(request.headers.get("range"), info.size)
      : undefined;
  } catch (error) {
    return registryError(error, { headers: { "content-range": `bytes */${info.size}` } });
  }
  const size = range ? range.end - range.start + 1 : info.size;
  const all = {
    ...fields,
    "content-type": "application/octet-stream",
    "content-length": String(size),
    "content-range": range && `bytes ${range.start}-${range.end}/${info.size}`,
  };
  const status = range ? 206 : 200;
  if (request.method === "HEAD") return reply(status, all);
  const body = await reader.get(repository, digest, { ...look, ...(range && { range }) });
  if (!body) throw unknown(repository, digest);
  return context.connection.blob(body, { status, headers: headersOf(all) });
}

async function remove(context: Context, writer: RegistryWriter): Promise<Response> {
  const repository = repositoryOf(context);
  const digest = digestParam(context);
  if (!await writer.deleteBlob(repository, digest, { signal: context.signal })) {
    throw unknown(repository, digest);
  }
  return empty(202, { "docker-content-digest": digest });
}

export function blobRoutes(options: RegistryOptions): Route[] {
  return [
    {
      method: "GET",
      path: "/v2/{name+}/blobs/{digest}",
      action: "pull",
      help: "A blob, whole or one range of it; HEAD tells whether it is there.",
      handler: guarded((context) => get(context, options)),
    },
    {
      method: "DELETE",
      path: "/v2/{name+}/blobs/{digest}",
      action: "push",
      help: "Deletes a blob that no manifest refers to.",
      handler: writing(options, remove),
    },
  ];
}
