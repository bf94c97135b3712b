/** Who may enrol and remove which key. */
import type { EnrolKeyRequest, EnrolledKey } from "../../api/auth.ts";
import type { Identity } from "../../api/route.ts";
import { SvcError } from "../../base/errors.ts";
import { ACTIONS, type Policy } from "../policy.ts";
import { grantsScope, parseScopes } from "../scope.ts";
import { type AuthorizedKey, checkName, parseAuthorizedKey } from "./authorized_keys.ts";
import type { StoredKey } from "./key_store.ts";
import { Malformed } from "./wire.ts";

function invalid(why: string, cause?: unknown): SvcError {
  return new SvcError("argument_invalid", `Cannot enrol the key: ${why}`, {
    cause,
    help: "send one line of a .pub file: TYPE BASE64 [COMMENT]",
  });
}

/** A request as the key it asks for. Throws `argument_invalid`. */
export function requestedKey(request: EnrolKeyRequest): AuthorizedKey {
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
  if (expiresAt === undefined) return parsed;
  const expires = Math.floor(Date.parse(expiresAt) / 1000) * 1000;
  if (Number.isNaN(expires)) throw invalid("expiresAt is not a time as RFC 3339 has it");
  if (expires <= Date.now()) throw invalid("expiresAt is over");
  return { ...parsed, expires };
}

/**
 * A key is as good as its identity: under a policy, whoever may not do everything manages keys of the own
 * name only, and nobody gives a key a scope that the own credential has not. Throws `denied`.
 */
export function mayManage(
  { subject, scopes }: Identity,
  key: Pick<AuthorizedKey, "name" | "scopes">,
  granted: ReturnType<Policy["actionsOf"]> | undefined,
): void {
  const everything = granted === undefined || ACTIONS.every((action) => granted.has(action));
  if (!everything && (subject === "" || subject !== key.name)) {
    throw new SvcError(
      "denied",
      `Cannot manage keys of ${JSON.stringify(key.name)}: the policy does not allow ` +
        `${JSON.stringify(subject)} every action`,
      { help: "use the own name, or ask somebody whom the policy allows everything" },
    );
  }
  const missing = key.scopes.find((scope) => !grantsScope(scopes, scope));
  if (missing === undefined) return;
  throw new SvcError(
    "denied",
    `Cannot manage a key with the scope ${missing}: the own credential lacks it`,
    {
      detail: { scope: missing },
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
