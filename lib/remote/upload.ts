/** Uploads a blob to another registry: a small one whole, a larger one in pieces that can be repeated. */
import { SvcError } from "../base/errors.ts";
import { sleep } from "../base/sleep.ts";
import { isPassing, refusal, type Transport } from "./transport.ts";

/** Size of a piece of a chunked upload, and of the largest blob that is sent whole, in bytes. */
const PIECE = 8 * 1024 * 1024;
/** Largest piece that a registry may demand, in bytes: pieces are held in memory. */
const MAX_PIECE = 128 * 1024 * 1024;

export interface UploadTarget {
  transport: Transport;
  repository: string;
  scope: string;
  signal?: AbortSignal;
}

/** Collects a stream into pieces of `size` bytes; the last piece is shorter (empty for an empty stream). */
async function* inPieces(
  stream: ReadableStream<Uint8Array>,
  size: number,
): AsyncGenerator<{ bytes: Uint8Array<ArrayBuffer>; last: boolean }> {
  let piece = new Uint8Array(size);
  let filled = 0;
  for await (let chunk of stream) {
    while (chunk.length > 0) {
      if (filled === size) {
        yield { bytes: piece, last: false };
        piece = new Uint8Array(size);
        filled = 0;
      }
      const part = chunk.subarray(0, size - filled);
      piece.set(part, filled);
      filled += part.length;
      chunk = chunk.subarray(part.length);
    }
  }
  yield { bytes: piece.subarray(0, filled), last: true };
}

function locationOf(response: Response, from: URL, host: string): URL {
  const location = response.headers.get("location");
  if (location && URL.canParse(location, from)) return new URL(location, from);
  throw new SvcError("upstream_failed", `Cannot push to ${host}: it names no upload location`);
}

const attempted = (target: UploadTarget) =>
  `Cannot push a blob to ${target.transport.host}/${target.repository}`;

async function start(target: UploadTarget): Promise<{ location: URL; piece: number }> {
  const { transport, repository, scope, signal } = target;
  const path = `${repository}/blobs/uploads/`;
  const response = await transport.request(path, { method: "POST", scope, signal });
  if (response.status !== 202) {
    throw await refusal(attempted(target), transport.host, response);
  }
  await response.body?.cancel();
  const least = Number(response.headers.get("oci-chunk-min-length") ?? 0);
  if (least > MAX_PIECE) {
    throw new SvcError(
      "upstream_failed",
      `${attempted(target)}: it takes no piece under ${least} bytes`,
    );
  }
  return {
    location: locationOf(response, new URL(path, transport.base), transport.host),
    piece: Math.max(PIECE, least || 0),
  };
}

/** Bytes of an upload that the registry has, and the URL to continue at; for use after a failed request. */
async function progress(target: UploadTarget, location: URL): Promise<{ at: number; url: URL }> {
  const { transport, scope, signal } = target;
  const response = await transport.request(location, { scope, signal });
  if (response.status !== 204) throw await refusal(attempted(target), transport.host, response);
  await response.body?.cancel();
  const range = /^(?:bytes=)?0-(\d+)$/.exec(response.headers.get("range") ?? "");
  const last = range ? Number(range[1]) : 0;
  // Registries answer "0-0" both for no byte and for one byte.
  return {
    at: last === 0 ? 0 : last + 1,
    url: response.headers.has("location")
      ? locationOf(response, location, transport.host)
      : location,
  };
}

/**
 * True where the registry has more bytes than it reported before: it was still storing what came before the
 * connection broke.
 */
function isAhead(failure: unknown): boolean {
  return failure instanceof SvcError && failure.detail?.status === 416;
}

/** Sends the piece at `offset`; after a failure, only the bytes that the registry lacks. */
async function sendPiece(
  target: UploadTarget,
  start: URL,
  piece: Uint8Array<ArrayBuffer>,
  offset: number,
): Promise<URL> {
  const { transport, scope, signal } = target;
  let url = start;
  let at = offset;
  for (let n = 1; at < offset + piece.length; n++) {
    const body = piece.subarray(at - offset);
    let failure: unknown;
    try {
      const response = await transport.request(url, {
        method: "PATCH",
        scope,
        signal,
        body,
        retry: false,
        headers: {
          "content-type": "application/octet-stream",
          "content-range": `${at}-${at + body.length - 1}`,
        },
      });
      if (response.status === 202 || response.status === 204) {
        await response.body?.cancel();
        return locationOf(response, url, transport.host);
      }
      failure = await refusal(attempted(target), transport.host, response);
    } catch (error) {
      failure = error;
    }
    signal?.throwIfAborted();
    if (!(isPassing(failure) || isAhead(failure)) || n === transport.attempts) throw failure;
    await sleep(transport.pause(n), signal);
    const known = await progress(target, url);
    if (known.at < offset || known.at > offset + piece.length) throw failure;
    ({ at, url } = known);
  }
  return url;
}

/** Finishes an upload. `body`: the last bytes (or all), which begin at `offset`. */
async function finish(
  target: UploadTarget,
  location: URL,
  digest: string,
  body?: Uint8Array<ArrayBuffer>,
): Promise<void> {
  const { transport, scope, signal } = target;
  const url = new URL(location);
  url.searchParams.set("digest", digest);
  const response = await transport.request(url, {
    method: "PUT",
    scope,
    signal,
    body,
    headers: body ? { "content-type": "application/octet-stream" } : {},
  });
  if (response.status === 201 || response.status === 204) return void await response.body?.cancel();
  throw await refusal(attempted(target), transport.host, response);
}

/** Cancels an upload; a failure of that is ignored. */
async function cancelUpload(target: UploadTarget, location: URL): Promise<void> {
  const { transport, scope } = target;
  try {
    const response = await transport.request(location, {
      method: "DELETE",
      scope,
      retry: false,
      signal: AbortSignal.timeout(5000),
    });
    await response.body?.cancel();
  } catch {
    // The upload expires at the registry by itself.
  }
}

/**
 * Uploads `body`, a stream that verifies itself against `digest`: where it errors, the upload is cancelled
 * and nothing is published.
 */
export async function upload(
  target: UploadTarget,
  digest: string,
  body: ReadableStream<Uint8Array>,
): Promise<void> {
  let open: URL | undefined;
  try {
    const begun = await start(target);
    open = begun.location;
    let offset = 0;
    for await (const { bytes, last } of inPieces(body, begun.piece)) {
      if (last && offset === 0) {
        await finish(target, open, digest, bytes);
        return;
      }
      open = await sendPiece(target, open, bytes, offset);
      offset += bytes.length;
    }
    await finish(target, open, digest);
  } catch (error) {
    await body.cancel().catch(() => {/* the stream has ended, or is locked by the failed loop */});
    if (open) await cancelUpload(target, open);
    throw error;
  }
}

/** Mounts a blob from another repository; false where the registry wants the bytes instead. */
export async function mount(target: UploadTarget, digest: string, from: string): Promise<boolean> {
  const { transport, repository, scope, signal } = target;
  const query = new URLSearchParams({ mount: digest, from });
  const path = `${repository}/blobs/uploads/?${query}`;
  const response = await transport.request(path, { method: "POST", scope, signal });
  await response.body?.cancel();
  if (response.status === 201) return true;
  if (response.status === 202) {
    await cancelUpload(
      target,
      locationOf(response, new URL(path, transport.base), transport.host),
    );
  }
  return false;
}
