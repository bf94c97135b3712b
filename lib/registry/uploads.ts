/**
 * Pushing blobs (distribution specification "Pushing blobs"): in one POST, POST then PUT, in chunks,
 * streamed, or mounted from another repository.
 */
import type { Context, Route } from "../api/route.ts";
import { SvcError } from "../base/errors.ts";
import { type DigestAlgorithm, parseDigest } from "../oci/digest.ts";
import type { Digest } from "../oci/types.ts";
import { registryError } from "./errors.ts";
import { heldRange, parseContentRange } from "./range.ts";
import {
  checkName,
  contentLength,
  empty,
  type RegistryOptions,
  repositoryOf,
  writing,
} from "./request.ts";
import type { RegistryWriter } from "./view.ts";
import type { Upload } from "../store/upload.ts";

const locationOf = (upload: Upload) => `/v2/${upload.repository}/blobs/uploads/${upload.id}`;

function statusOf(upload: Upload): Record<string, string> {
  return {
    location: locationOf(upload),
    range: heldRange(upload.offset),
    "docker-upload-uuid": upload.id,
  };
}

function created(repository: string, digest: Digest): Response {
  return empty(201, {
    location: `/v2/${repository}/blobs/${digest}`,
    "docker-content-digest": digest,
  });
}

/** The hash to compute while bytes arrive, where the client announces the digest's algorithm. */
function algorithmOf(url: URL, digest: string | null): DigestAlgorithm | undefined {
  if (digest !== null) return parseDigest(digest).algorithm;
  const name = url.searchParams.get("digest-algorithm");
  if (name === null || name === "sha256" || name === "sha512") return name ?? undefined;
  throw new SvcError(
    "digest_invalid",
    `Cannot start an upload for ${JSON.stringify(name.slice(0, 40))}: expected sha256 or sha512`,
  );
}

/** Appends the request's body, if any, at the offset in its Content-Range. */
async function append(context: Context, upload: Upload): Promise<void> {
  const { request, signal } = context;
  const range = parseContentRange(request.headers.get("content-range"));
  const length = contentLength(request);
  const limit = range && range.end - range.start + 1;
  if (limit !== undefined && length !== undefined && length !== limit) {
    throw new SvcError(
      "size_invalid",
      `Cannot append: Content-Range names ${limit} bytes, Content-Length ${length}`,
    );
  }
  const body = length === 0 ? null : request.body;
  if (!body) {
    if (limit === undefined) return;
    throw new SvcError("size_invalid", `Cannot append: ${limit} bytes announced, none sent`);
  }
  await upload.append(body, { signal, at: range?.start, limit });
}

async function open(context: Context, writer: RegistryWriter): Promise<Upload> {
  const repository = repositoryOf(context);
  const { id } = context.params;
  const upload = await writer.openUpload(repository, id, { signal: context.signal });
  if (upload) return upload;
  throw new SvcError(
    "blob_upload_unknown",
    `Cannot find upload ${
      id.slice(0, 80)
    } of ${repository}: it does not exist, has ended or has expired`,
  );
}

/** Adds the current offset to the error for an out-of-order chunk. */
async function tellingOffset(
  upload: Upload,
  work: () => Promise<Response>,
): Promise<Response> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof SvcError) || error.code !== "range_invalid") throw error;
    return registryError(error, { headers: statusOf(upload) });
  }
}

async function start(context: Context, writer: RegistryWriter): Promise<Response> {
  const { url, request, signal } = context;
  const repository = repositoryOf(context);
  const mount = url.searchParams.get("mount");
  if (mount !== null) {
    parseDigest(mount);
    const from = url.searchParams.get("from");
    if (from !== null) checkName(from);
    const mounted = await writer.mountBlob?.(repository, mount, from ?? repository, { signal });
    if (mounted) return created(repository, mount);
  }
  const digest = url.searchParams.get("digest");
  const upload = await writer.startUpload(repository, {
    signal,
    algorithm: algorithmOf(url, digest),
  });
  if (digest === null) return empty(202, statusOf(upload));
  try {
    const body = request.body;
    if (body) await upload.append(body, { signal });
    await upload.commit(digest, { signal });
  } catch (error) {
    // The client never learned the upload's id: nobody can continue it.
    await upload.abort().catch(() => {/* the commit dropped it; else it expires */});
    throw error;
  }
  return created(repository, digest);
}

async function chunk(context: Context, writer: RegistryWriter): Promise<Response> {
  const upload = await open(context, writer);
  return await tellingOffset(upload, async () => {
    await append(context, upload);
    return empty(202, statusOf(upload));
  });
}

async function finish(context: Context, writer: RegistryWriter): Promise<Response> {
  const upload = await open(context, writer);
  const digest = context.url.searchParams.get("digest");
  if (digest === null) {
    throw new SvcError("digest_invalid", "Cannot finish the upload: ?digest= is missing");
  }
  parseDigest(digest);
  return await tellingOffset(upload, async () => {
    await append(context, upload);
    await upload.commit(digest, { signal: context.signal });
    return created(upload.repository, digest);
  });
}

export function uploadRoutes(view: RegistryOptions): Route[] {
  /** Without a writer, these paths have no methods at all. */
  const handler = (work: (context: Context, writer: RegistryWriter) => Promise<Response>) =>
    writing(view, work, "");
  const path = "/v2/{name+}/blobs/uploads/{id}";
  const starts = ["/v2/{name+}/blobs/uploads/", "/v2/{name+}/blobs/uploads"].map((path): Route => ({
    method: "POST",
    path,
    action: "push",
    help:
      "Starts an upload; with ?digest= takes the whole blob; with ?mount= and ?from= copies none.",
    handler: handler(start),
  }));
  return [
    ...starts,
    {
      method: "GET",
      path,
      action: "push",
      help: "How much of an upload has arrived.",
      handler: handler(async (context, writer) =>
        empty(204, statusOf(await open(context, writer)))
      ),
    },
    {
      method: "PATCH",
      path,
      action: "push",
      help: "Appends to an upload: a chunk with Content-Range, or a stream without.",
      handler: handler(chunk),
    },
    {
      method: "PUT",
      path,
      action: "push",
      help: "Ends an upload; the body, if any, is its last chunk; ?digest= is checked.",
      handler: handler(finish),
    },
    {
      method: "DELETE",
      path,
      action: "push",
      help: "Cancels an upload.",
      handler: handler(async (context, writer) => {
        await (await open(context, writer)).abort();
        return empty(204);
      }),
    },
  ];
}
