/** Manifests by tag and by digest: GET, HEAD, PUT, DELETE. Manifests are served byte for byte as they were pushed. */
import type { Context, Route } from "../api/route.ts";
import { SvcError } from "../base/errors.ts";
import { parseDigest } from "../oci/digest.ts";
import { MAX_MANIFEST_BYTES } from "../oci/manifest.ts";
import { isTag } from "../oci/reference.ts";
import {
  empty,
  guarded,
  headersOf,
  lookOf,
  notModified,
  readBody,
  type RegistryOptions,
  reply,
  repositoryOf,
  writing,
} from "./request.ts";
import type { RegistryReader, RegistryWriter } from "./view.ts";

/** A tag, or a well-formed digest (else `digest_invalid`). Undefined for a reference that is neither. */
function referenceOf(context: Context): { tag?: string; digest?: string } | undefined {
  const { reference } = context.params;
  if (isTag(reference)) return { tag: reference };
  if (!reference.includes(":")) return undefined;
  parseDigest(reference);
  return { digest: reference };
}

/** Header fields for a tag whose upstream could not be reached; `warning` is that of RFC 7234 5.5.1. */
const STALE = { warning: '110 - "Response is Stale"', "x-svc-stale": "true" };

/** Tags of one push; the specification asks for 10. */
const MAX_TAGS = 100;

function unknown(repository: string, reference: string): SvcError {
  return new SvcError(
    "manifest_unknown",
    `Cannot find manifest ${reference.slice(0, 160)} in ${repository}: no such tag or digest`,
    { detail: { name: repository, reference: reference.slice(0, 160) } },
  );
}

/** The media type, without parameters and in lower case. Undefined for none, or a general one. */
function mediaTypeOf(request: Request): string | undefined {
  const type = request.headers.get("content-type")?.split(";")[0].trim().toLowerCase();
  return !type || type === "application/json" || type === "application/octet-stream"
    ? undefined
    : type;
}

async function get(context: Context, reader: RegistryReader): Promise<Response> {
  const { request, params } = context;
  const repository = repositoryOf(context);
  const found = referenceOf(context) &&
    await reader.resolve(repository, params.reference, lookOf(context));
  if (!found) throw unknown(repository, params.reference);
  const { digest, mediaType, size } = found.descriptor;
  const etag = `"${digest}"`;
  const fields = { "docker-content-digest": digest, etag, ...(found.stale ? STALE : {}) };
  if (notModified(request, etag)) return empty(304, fields);
  return reply(200, {
    ...fields,
    "content-type": mediaType,
    "content-length": String(size),
  }, request.method === "HEAD" ? null : found.bytes);
}

async function put(
  context: Context,
  writer: RegistryWriter,
  sparse: NonNullable<RegistryOptions["sparse"]>,
): Promise<Response> {
  const { request, signal, params, url } = context;
  const repository = repositoryOf(context);
  const reference = referenceOf(context);
  if (!reference) {
    throw new SvcError(
      "manifest_invalid",
      `Cannot accept the manifest: ${JSON.stringify(params.reference.slice(0, 160))} is neither ` +
        `a tag nor a digest`,
    );
  }
  const extra = url.searchParams.getAll("tag");
  if (extra.length > MAX_TAGS) {
    throw new SvcError(
      "too_many_tags",
      `Cannot tag the manifest: ${extra.length} tags at once, the limit is ${MAX_TAGS}`,
    );
  }
  const bytes = await readBody(request, MAX_MANIFEST_BYTES, () =>
    new SvcError(
      "manifest_too_large",
      `Cannot accept the manifest: it has more than ${MAX_MANIFEST_BYTES} bytes`,
    ));
  const tags = [...new Set([...reference.tag === undefined ? [] : [reference.tag], ...extra])];
  const { descriptor, subject } = await writer.publish(
    repository,
    mediaTypeOf(request),
    bytes,
    { signal, tags, digest: reference.digest, sparse },
  );
  const headers = headersOf({
    "content-length": "0",
    location: `/v2/${repository}/manifests/${descriptor.digest}`,
    "docker-content-digest": descriptor.digest,
    "oci-subject": subject,
  });
  for (const tag of new Set(extra)) headers.append("oci-tag", tag);
  return new Response(null, { status: 201, headers });
}

async function remove(context: Context, writer: RegistryWriter): Promise<Response> {
  const repository = repositoryOf(context);
  const { reference } = context.params;
  const there = referenceOf(context) &&
    await writer.deleteManifest(repository, reference, { signal: context.signal });
  if (!there) throw unknown(repository, reference);
  return empty(202);
}

export function manifestRoutes({ reader, writer, sparse = false }: RegistryOptions): Route[] {
  const path = "/v2/{name+}/manifests/{reference}";
  return [
    {
      method: "GET",
      path,
      action: "pull",
      help: "The manifest of a tag or digest, as it was pushed.",
      handler: guarded((context) => get(context, reader)),
    },
    {
      method: "PUT",
      path,
      action: "push",
      help: "Stores a manifest under its digest and a tag; ?tag= (repeatable) adds tags.",
      handler: writing({ reader, writer }, (context, to) => put(context, to, sparse)),
    },
    {
      method: "DELETE",
      path,
      action: "push",
      help: "By tag: removes the tag. By digest: removes the manifest and its tags.",
      handler: writing({ reader, writer }, remove),
    },
  ];
}
