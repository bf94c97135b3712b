/** The caller's registry logins for a build or a deployment: sent in a header, or in a session's request. */
import { SvcError } from "../base/errors.ts";
import { isRegistry } from "../oci/reference.ts";
import type { Login } from "../oci/resolver.ts";

/** Header of `POST /build` and of an apply: {@linkcode Logins} as JSON in base64. */
export const LOGINS_HEADER = "x-svc-registry-logins";

/**
 * Header of a build that a server delegates to its builder: the registry for names without one. That is the
 * server's own registry, not the builder's.
 */
export const REGISTRY_HEADER = "x-svc-registry";

/**
 * Header of a delegated build. Present where the caller may not read images of the server: the builder must not
 * lend images of its own either.
 */
export const NO_PULL_HEADER = "x-svc-no-pull";

/** Logins by registry host. */
export type Logins = Record<string, Login>;

/** Hosts with logins in one build, at most. */
const MOST = 100;

function isLogin(value: unknown): value is Login {
  const login = value as Partial<Record<string, unknown>> | null;
  if (typeof login !== "object" || login === null) return false;
  const text = (key: string) => typeof login[key] === "string" && login[key] !== "";
  return text("token") || text("identityToken") || text("username") && text("password");
}

/** Throws `argument_invalid`, without quoting the logins. */
export function checkLogins(value: unknown): ReadonlyMap<string, Login> | undefined {
  if (value === undefined) return undefined;
  const entries = typeof value === "object" && value !== null && !Array.isArray(value)
    ? Object.entries(value)
    : undefined;
  if (entries && entries.length <= MOST && entries.every(([, login]) => isLogin(login))) {
    return new Map(entries as [string, Login][]);
  }
  throw new SvcError("argument_invalid", "Cannot read the registry logins: they are malformed");
}

/** Header of a delegated build: the caller whose cache mounts the build uses. */
export const CALLER_HEADER = "x-svc-build-caller";

/** Undefined where there is no header. */
export function readCaller(headers: Headers): string | undefined {
  return headers.get(CALLER_HEADER) ?? undefined;
}

/** Undefined where there is no header. Throws `argument_invalid`. */
export function readLogins(header: string | null): ReadonlyMap<string, Login> | undefined {
  if (header === null) return undefined;
  let value: unknown = null;
  try {
    value = JSON.parse(new TextDecoder().decode(Uint8Array.fromBase64(header)));
  } catch {
    // The JSON parser's message would quote a password: the error is thrown below.
  }
  return checkLogins(value);
}

/** Undefined where there is no header. Throws `argument_invalid`. */
export function readRegistry(header: string | null): string | undefined {
  if (header === null) return undefined;
  if (isRegistry(header)) return header;
  throw new SvcError(
    "argument_invalid",
    `Cannot read the registry of the build ${JSON.stringify(header)}: expected host[:port]`,
  );
}

export function loginsHeader(logins: Logins): string {
  return new TextEncoder().encode(JSON.stringify(logins)).toBase64();
}
