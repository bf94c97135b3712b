/** Who may enrol and remove keys. */
import type { EnrolKeyRequest, EnrolledKey } from "../../api/auth.ts";
import type { Action, Identity } from "../../api/route.ts";
import { formatDuration } from "../../base/duration.ts";
import { SvcError } from "../../base/errors.ts";
import { ACTIONS, type Policy } from "../policy.ts";
import { grantsScope, parseScopes, scopeFor } from "../scope.ts";
import { type AuthorizedKey, checkName, parseAuthorizedKey } from "./authorized_keys.ts";
import type { StoredKey } from "./key_store.ts";
import { Malformed } from "./wire.ts";

function invalid(why: string, cause?: unknown): SvcError {
  return new SvcError("argument_invalid", `Cannot enrol the key: ${why}`, {
    cause,
    help: "send one line of a .pub file: TYPE BASE64 [COMMENT]",
  });
}

/**
 * The key that a request asks for. It ends within `maxAgeMs`, and no later than the key of the caller's own
 * session (`ownEnd`, milliseconds since 1970): otherwise keys could enrol each other for ever. Throws
 * `argument_invalid`.
 */
export function requestedKey(
  request: EnrolKeyRequest,
  maxAgeMs: number,
  ownEnd = Infinity,
): AuthorizedKey {
  const { publicKey, name, scope, expiresAt } = request;
  if (/[\r\n]/.test(publicKey.trim())) throw invalid("it has several lines");
  let parsed: AuthorizedKey;
  try {
    parsed = parseAuthorizedKey(publicKey);
    if (name !== undefined) parsed = { ...parsed, name: checkName(name.trim()) || parsed.name };
  } catch (error) {
    if (error instanceof Malformed) throw invalid(error.message, error);
    throw error;
  }
  if (scope !== undefined) parsed = { ...parsed, scopes: parseScopes(scope, "scope") };
  // In whole seconds, as the file has them.
  const last = Math.min(Math.ceil((Date.now() + maxAgeMs) / 1000) * 1000, ownEnd);
  const expires = expiresAt === undefined
    ? parsed.expires ?? last
    : Math.floor(Date.parse(expiresAt) / 1000) * 1000;
  if (Number.isNaN(expires)) throw invalid("expiresAt is not a time as RFC 3339 has it");
  if (expires <= Date.now()) throw invalid("its end is over");
  if (expires <= last) return { ...parsed, expires };
  if (last === ownEnd) {
    throw new SvcError(
      "argument_invalid",
      `Cannot enrol the key: your key ends ${new Date(ownEnd).toISOString()}, and this one later`,
      { help: "ask for an earlier end, or leave it out; a later one needs another credential" },
    );
  }
  throw new SvcError(
    "argument_invalid",
    `Cannot enrol the key: the server lets a key last ${formatDuration(maxAgeMs)} at most`,
    { help: "ask for an earlier end, or leave it out; SVC_AUTH_KEY_MAX_AGE is the bound" },
  );
}

/** The actions of an identity: those that the policy grants and its own scopes cover. */
function rightsOf(policy: Policy, identity: Identity): Action[] {
  return ACTIONS.filter((action) =>
    grantsScope(identity.scopes, scopeFor(action)) && policy.allows(identity, action)
  );
}

/** Under a policy, everyone manages the keys of their own name; `admin` manages all. */
export function mayManageKeysOf(name: string, identity: Identity, policy?: Policy): boolean {
  return !policy || policy.allows(identity, "admin") ||
    identity.subject !== "" && identity.subject === name;
}

/** Throws `denied`. */
export function requireKeysOf(name: string, identity: Identity, policy?: Policy): void {
  if (mayManageKeysOf(name, identity, policy)) return;
  throw new SvcError(
    "denied",
    `Cannot manage keys of ${JSON.stringify(name)}: no rule allows ` +
      `${JSON.stringify(identity.subject)} to admin`,
    {
      help: "use your own name, or ask somebody whom the policy grants the action admin",
      detail: { action: "admin" },
    },
  );
}

/**
 * Nobody may enrol a key that could do more than the caller's own credential, by its scopes or by what the
 * policy grants its name. Throws `denied`.
 */
export function mayEnrol(
  identity: Identity,
  { name, scopes }: Pick<AuthorizedKey, "name" | "scopes">,
  policy?: Policy,
): void {
  requireKeysOf(name, identity, policy);
  const missing = scopes.find((scope) => !grantsScope(identity.scopes, scope));
  if (missing !== undefined) {
    throw new SvcError(
      "denied",
      `Cannot enrol a key with the scope ${missing}: your own credential lacks it`,
      { detail: { scope: missing } },
    );
  }
  if (!policy) return;
  const own = rightsOf(policy, identity);
  const action = rightsOf(policy, { subject: name, scopes, method: "ssh-key" })
    .find((action) => !own.includes(action));
  if (action === undefined) return;
  throw new SvcError(
    "denied",
    `Cannot enrol a key of ${JSON.stringify(name)}: the policy lets that key ${action}, which ` +
      "your own credential may not",
    {
      help: `ask somebody who may ${action} to enrol it, or give the key a narrower scope`,
      detail: { action },
    },
  );
}

export function enrolledKey({ key, name, scopes, expires, source }: StoredKey): EnrolledKey {
  return {
    fingerprint: key.fingerprint,
    type: key.type,
    name,
    scope: scopes.join(" "),
    source,
    expiresAt: expires === undefined ? undefined : new Date(expires).toISOString(),
    publicKey: `${key.type} ${btoa(String.fromCharCode(...key.blob))}`,
  };
}
