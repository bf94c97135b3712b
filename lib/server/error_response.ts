/** The one function that turns a thrown value into a response (DESIGN.md rule 3). */
import { asSvcError, isAbort, SvcError } from "../base/errors.ts";
import { registryError } from "../registry/errors.ts";
import { json } from "./json.ts";
import type { Logger } from "../base/log.ts";
import { PROBLEM_TYPE, toProblem } from "../api/problem.ts";

/** Paths whose errors are the OCI Distribution Specification's JSON. */
function isRegistryPath(path: string): boolean {
  return path === "/v2" || path.startsWith("/v2/");
}

/**
 * The error that a client gets for a thrown value. An unexpected error is logged with its stack; its text does
 * not leave the log, because it may name files and addresses of this host.
 */
export function describeError(
  error: unknown,
  at: { request: Request; url: URL; log: Logger; outcome?: string },
): SvcError {
  const known = asSvcError(error);
  at.outcome = known.code;
  const attempt = `${at.request.method} ${at.url.pathname}`;
  if (known.code !== "internal" || isAbort(error)) {
    // The operator has to know of a full disk or a missing program, but not of a caller's mistake.
    if (known.status >= 500 && known.code !== "unavailable") {
      at.log.warn(`${attempt} failed`, { code: known.code, error: known, help: known.help });
    }
    return known;
  }
  const { stack, cause } = error instanceof Error ? error : new Error(String(error));
  at.log.error(`${attempt} failed`, { error, stack, cause: cause && String(cause) });
  if (error instanceof SvcError) return known;
  return new SvcError(
    "internal",
    `Cannot answer ${attempt}: an unexpected error; the server's log has it`,
    { cause: error },
  );
}

/** `challenge` gives the `WWW-Authenticate` of a 401. */
export function errorResponse(error: SvcError, path: string, challenge: () => string): Response {
  const headers: Record<string, string> = { "cache-control": "no-store" };
  const registry = isRegistryPath(path);
  if (error.code === "unauthorized") {
    headers["www-authenticate"] = challenge();
  }
  if (error.code === "unavailable") headers["retry-after"] = "5";
  if (error.code === "method_not_allowed" && Array.isArray(error.detail?.allow)) {
    headers["allow"] = error.detail.allow.join(", ");
  }
  if (registry) return registryError(error, { headers });
  headers["content-type"] = PROBLEM_TYPE;
  return json(toProblem(error), { status: error.status, headers });
}
