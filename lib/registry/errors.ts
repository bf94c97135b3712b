/** Errors as the OCI Distribution Specification 1.1 writes them ("Error Codes"). */
import { asSvcError, CATALOGUE, type SvcError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";

export const API_VERSION = ["docker-distribution-api-version", "registry/2.0"] as const;

/** The specification's code. Errors without one are UNSUPPORTED (the caller's fault) or UNKNOWN (ours). */
function codeOf(error: SvcError): string {
  const { oci } = CATALOGUE[error.code] as { oci?: string };
  return oci ?? (error.status < 500 ? "UNSUPPORTED" : "UNKNOWN");
}

/**
 * The one place where a failure becomes a response of `/v2/`. `headers` are added (a 416's Range, a 401's
 * challenge). A failure of this server is logged with its cause.
 */
export function registryError(
  thrown: unknown,
  options: { log?: Logger; headers?: HeadersInit } = {},
): Response {
  const error = asSvcError(thrown);
  if (error.status >= 500) {
    options.log?.error("registry request failed", {
      code: error.code,
      error,
      ...(error.cause instanceof Error && { cause: error.cause.stack }),
    });
  }
  const headers = new Headers(options.headers);
  headers.set(...API_VERSION);
  headers.set("content-type", "application/json");
  // An internal error's text may name paths of the server: it stays in the log.
  const message = error.code === "internal"
    ? "Cannot answer: internal error"
    : `${error.message} (${error.help})`;
  const body = { errors: [{ code: codeOf(error), message, detail: error.detail ?? null }] };
  const bytes = new TextEncoder().encode(`${JSON.stringify(body)}\n`);
  headers.set("content-length", String(bytes.length));
  return new Response(bytes, { status: error.status, headers });
}
