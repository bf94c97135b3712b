/** Shared by the registry's handlers: checked parameters, bodies, conditional answers. */
import { type Fields, Reply } from "../api/reply.ts";
import type { Context, Route } from "../api/route.ts";
import { readAtMost } from "../base/collect.ts";
import { SvcError } from "../base/errors.ts";
import { isRepositoryName } from "../oci/reference.ts";
import { API_VERSION, registryError } from "./errors.ts";
import type { ReaderOptions, RegistryView, RegistryWriter } from "./view.ts";

export interface RegistryOptions extends RegistryView {
  /** Accepts indexes, or all manifests, whose references are missing here. Default: refuses them. */
  sparse?: false | "indexes" | "all";
  /** Redirects blob downloads to the storage, where it can sign addresses. */
  redirectBlobs?: boolean;
}

export type Handler = Route["handler"];

/** A handler whose failures are answered in the specification's form. */
export function guarded(handler: (context: Context) => Promise<Response> | Response): Handler {
  return async (context) => {
    try {
      return await handler(context);
    } catch (error) {
      // The request was given up: nobody reads its answer.
      const log = context.signal.aborted ? undefined : context.log;
      return registryError(error, { log });
    }
  };
}

/**
 * A handler that changes the registry. This is the one place where a registry without a writer refuses changes.
 * `allow`: methods that the path has even without a writer.
 */
export function writing(
  { writer }: RegistryView,
  handler: (context: Context, writer: RegistryWriter) => Promise<Response>,
  allow = "GET, HEAD",
): Handler {
  if (writer) return guarded((context) => handler(context, writer));
  return () => {
    const why =
      "it shows the images of the deploy backend's engine, which change through that alone";
    const error = new SvcError("registry_read_only", `Cannot change this registry: ${why}`);
    return registryError(error, { headers: { allow } });
  };
}

/** Throws `name_invalid`. */
export function repositoryOf(context: Context): string {
  return checkName(context.params.name);
}

export function checkName(name: string): string {
  if (isRepositoryName(name)) return name;
  throw new SvcError(
    "name_invalid",
    `Cannot use repository name ${JSON.stringify(name.slice(0, 300))}: ` +
      `expected lower-case letters and digits, separated by . _ __ - or /, at most 255`,
  );
}

export function headersOf(fields: Fields): Headers {
  const headers = new Headers([[...API_VERSION]]);
  for (const [name, value] of Object.entries(fields)) {
    if (value !== undefined) headers.set(name, value);
  }
  return headers;
}

const VERSION: Fields = Object.fromEntries([API_VERSION]);

/** An answer of known length, which a listener sends without taking it apart. */
export function reply(status: number, fields: Fields, content: Uint8Array | null = null): Reply {
  return new Reply(status, { ...VERSION, ...fields }, content);
}

/** Options for a read of the store, taken from the request. */
export function lookOf({ request, signal }: Context): ReaderOptions {
  return {
    signal,
    probe: isProbe(request),
    via: request.headers.get("via") ?? undefined,
  };
}

/** True for a HEAD request: clients send one before they push. */
const isProbe = (request: Request): boolean => request.method === "HEAD";

export function empty(status: number, fields: Fields = {}): Response {
  // 204 and 304 have no length field; other empty answers say 0.
  const length = status === 204 || status === 304 ? undefined : "0";
  return reply(status, { "content-length": length, ...fields });
}

const encoder = new TextEncoder();

export function json(value: unknown, fields: Fields = {}): Response {
  const bytes = encoder.encode(JSON.stringify(value));
  return reply(200, {
    "content-type": "application/json",
    "content-length": String(bytes.length),
    ...fields,
  }, bytes);
}

/** True where If-None-Match names this entity tag (RFC 9110 13.1.2, weak comparison). */
export function notModified(request: Request, etag: string): boolean {
  const header = request.headers.get("if-none-match");
  if (header === null) return false;
  return header.split(",").some((item) => {
    const tag = item.trim().replace(/^W\//, "");
    return tag === "*" || tag === etag || tag === etag.slice(1, -1);
  });
}

/** Declared length of the body; undefined where it is chunked. Throws `size_invalid`. */
export function contentLength(request: Request): number | undefined {
  const header = request.headers.get("content-length");
  if (header === null) return undefined;
  const length = Number(header);
  if (/^\d+$/.test(header) && Number.isSafeInteger(length)) return length;
  throw new SvcError("size_invalid", `Cannot read Content-Length ${JSON.stringify(header)}`);
}

/** A body of at most `limit` bytes in one buffer. Throws `tooLarge()` without reading more. */
export async function readBody(
  request: Request,
  limit: number,
  tooLarge: () => SvcError,
): Promise<Uint8Array> {
  const declared = contentLength(request) ?? 0;
  if (declared > limit) throw tooLarge();
  return await readAtMost(request.body, limit, tooLarge);
}
