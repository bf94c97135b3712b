/** The caller's logins at registries, which go with a build: in a header, or in a session's request. */
import { SvcError } from "../base/errors.ts";
import { isRegistry } from "../oci/reference.ts";
import type { Login } from "../oci/resolver.ts";

/** Of `POST /build`: JSON in base64, {@linkcode Logins}. */
export const LOGINS_HEADER = "x-svc-registry-logins";

/**
 * Of builds that a server hands on to its builder: the registry of names that have none, which is that
 * server's own and not the builder's.
 */
export const REGISTRY_HEADER = "x-svc-registry";

/** Of such builds: there where the caller may read no image of that server; the builder lends none of its own either. */
export const NO_PULL_HEADER = "x-svc-no-pull";

/** By registry host. */
export type Logins = Record<string, Login>;

/** Hosts that one build has logins for, at most. */
const MOST = 100;

function isLogin(value: unknown): value is Login {
  const login = value as Partial<Record<string, unknown>> | null;
  if (typeof login !== "object" || login === null) return false;
  const text = (key: string) => typeof login[key] === "string" && login[key] !== "";
  return text("token") || text("identityToken") || text("username") && text("password");
}

/** Throws `argument_invalid`; never with what a login says. */
export function checkLogins(value: unknown): ReadonlyMap<string, Login> | undefined {
  if (value === undefined) return undefined;
  const entries = typeof value === "object" && value !== null && !Array.isArray(value)
    ? Object.entries(value)
    : undefined;
  if (entries && entries.length <= MOST && entries.every(([, login]) => isLogin(login))) {
    return new Map(entries as [string, Login][]);
  }
  throw new SvcError("argument_invalid", "Cannot read the logins of the build: they are malformed");
}

/** Whose cache mounts a build uses: what a server that delegates tells its builder. */
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
    // Refused below: the parser's words would quote a password.
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
