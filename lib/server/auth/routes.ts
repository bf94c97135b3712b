/** `/.svc/v1/auth/…`: routes that depend on the configured authentication. */
import type {
  ChallengeRequest,
  EnrolKeyRequest,
  KeyList,
  SessionRequest,
  TokenExchangeError,
} from "../../api/auth.ts";
import { ANONYMOUS_PULLER, NOBODY } from "../../auth/access.ts";
import type { Authenticator } from "../../auth/authenticator.ts";
import { ExchangeRefused, exchangeToken } from "../../auth/token_exchange.ts";
import { presentedToken, refusedCredential, tokenOf } from "../../auth/credential.ts";
import { OWN_TOKEN_PREFIX, type OwnTokens } from "../../auth/own_tokens.ts";
import type { Policy } from "../../auth/policy.ts";
import { registryToken } from "../../auth/registry_tokens.ts";
import {
  enrolledKey,
  mayEnrol,
  mayManageKeysOf,
  requestedKey,
  requireKeysOf,
} from "../../auth/ssh/enrolment.ts";
import type { KeyStore } from "../../auth/ssh/key_store.ts";
import type { Sessions } from "../../auth/ssh/sessions.ts";
import { SvcError } from "../../base/errors.ts";
import { json, readText } from "../json.ts";
import type { Route } from "../route.ts";
import { API_PREFIX, endpoint } from "../../api/endpoints.ts";

const PATH = `${API_PREFIX}/auth`;
export const REGISTRY_TOKENS = `${PATH}/registry`;
export const TOKEN_ENDPOINT = `${PATH}/token`;
export const CHALLENGE = `${PATH}/challenge`;
export const SESSION = `${PATH}/session`;

const MAX_BODY = 64 * 1024;
const NO_STORE = { "cache-control": "no-store" };

/** An object of texts. Throws `argument_invalid`. */
async function readTexts<T extends object>(
  request: Request,
  what: string,
  required: (keyof T & string)[],
  optional: (keyof T & string)[] = [],
): Promise<T> {
  const wrong = (why: string) =>
    new SvcError("argument_invalid", `Cannot read the ${what}: ${why}`);
  let body: unknown;
  try {
    body = JSON.parse(await readText(request, MAX_BODY, what));
  } catch (error) {
    if (error instanceof SvcError) throw error;
    throw wrong("it is not JSON");
  }
  if (body === null || typeof body !== "object" || Array.isArray(body)) {
    throw wrong("it is not an object");
  }
  const texts = body as Record<string, unknown>;
  for (const [name, value] of Object.entries(texts)) {
    if (![...required, ...optional].includes(name as keyof T & string)) {
      throw wrong(`unknown field ${JSON.stringify(name.slice(0, 40))}`);
    }
    if (typeof value !== "string") throw wrong(`${name}: expected a text`);
  }
  const missing = required.find((name) => !texts[name]);
  if (missing !== undefined) throw wrong(`${missing} is missing`);
  return texts as T;
}

export interface RegistryTokenDeps {
  authenticator: Authenticator;
  tokens: OwnTokens;
}

export function registryTokenRoutes({ authenticator, tokens }: RegistryTokenDeps): Route[] {
  return [{
    ...endpoint("GET /auth/registry"),
    open: true,
    help:
      "Token for the registry, as docker asks for one when pulls need no credential: with `Basic` or " +
      "`Bearer` for what that credential may do, and no longer than it; without for pulls. A token of this " +
      "server buys no other: as the password it is given back, as `Bearer` it is refused.",
    handler: async ({ request, connection }) => {
      const header = request.headers.get("authorization");
      const token = header === null ? undefined : presentedToken(tokenOf(header, true));
      const known = token && await authenticator.verify(token);
      if (token?.text.startsWith(OWN_TOKEN_PREFIX) && /^bearer /i.test(header!)) {
        throw refusedCredential("a token of this server buys no other");
      }
      const identity = known?.identity ??
        await authenticator.identify(request, connection, true) ?? ANONYMOUS_PULLER;
      const expires = known ? known.expires : connection.certificate?.until;
      const answer = registryToken(tokens, { token, identity, expires });
      return json(answer, { headers: NO_STORE });
    },
  }];
}

export interface ExchangeDeps extends RegistryTokenDeps {
  policy?: Policy;
}

export function exchangeRoutes(deps: ExchangeDeps): Route[] {
  return [{
    ...endpoint("POST /auth/token"),
    open: true,
    help:
      "OAuth 2.0 token exchange (RFC 8693): the subject token becomes a token of this server, good for " +
      "an hour. `scope` narrows.",
    handler: async (context) => {
      const { request, log } = context;
      context.identity = NOBODY;
      const form = new URLSearchParams(await readText(request, MAX_BODY, "form"));
      try {
        const { identity, response } = await exchangeToken(form, deps);
        context.identity = identity;
        log.info("exchanged a token", { subject: identity.subject, scope: response.scope });
        return json(response, { headers: NO_STORE });
      } catch (error) {
        if (!(error instanceof ExchangeRefused)) throw error;
        context.outcome = error.error;
        if (error.identity) context.identity = error.identity;
        log.info("refused to exchange a token", { code: error.error, error });
        const body = { error: error.error, error_description: error.message };
        return json(body satisfies TokenExchangeError, { status: 400, headers: NO_STORE });
      }
    },
  }];
}

export interface KeyDeps {
  keys: KeyStore;
  sessions: Sessions;
  policy?: Policy;
  /** Milliseconds that an enrolled key lasts at most. */
  keyMaxAge: number;
}

export function keyRoutes(deps: KeyDeps): Route[] {
  return [...sessionRoutes(deps), ...enrolmentRoutes(deps)];
}

function sessionRoutes({ sessions }: KeyDeps): Route[] {
  return [
    {
      ...endpoint("POST /auth/challenge"),
      open: true,
      help: "Challenge for a session with an SSH key: `{fingerprint, scope?, ttl?}`.",
      handler: async ({ request }) => {
        const wanted = await readTexts<ChallengeRequest>(request, "challenge request", [
          "fingerprint",
        ], ["scope", "ttl"]);
        return json(sessions.challenge(wanted), { headers: NO_STORE });
      },
    },
    {
      ...endpoint("POST /auth/session"),
      open: true,
      help: "Session for a signed challenge: `{challenge, signature}`, the latter an SSHSIG.",
      handler: async (context) => {
        const { request, log } = context;
        context.identity = NOBODY;
        const proof = await readTexts<SessionRequest>(request, "session request", [
          "challenge",
          "signature",
        ]);
        const session = sessions.open(proof, ({ key, name: subject, scopes }) => {
          context.identity = { subject, scopes, method: "ssh-key" };
          context.about = key.fingerprint;
        });
        log.info("opened a session", { subject: session.subject, scope: session.scope });
        return json(session, { status: 201, headers: NO_STORE });
      },
    },
  ];
}

function enrolmentRoutes({ keys, policy, keyMaxAge }: KeyDeps): Route[] {
  return [
    {
      ...endpoint("GET /auth/keys"),
      action: "any",
      help:
        "SSH keys that may open sessions: the caller's own, with the action `admin` everybody's.",
      handler: ({ identity }) => {
        const shown = keys.list().filter(({ name }) => mayManageKeysOf(name, identity, policy));
        return json({ keys: shown.map(enrolledKey), enrolment: keys.enrolment } satisfies KeyList);
      },
    },
    {
      ...endpoint("POST /auth/keys"),
      action: "any",
      help:
        "Enrols an SSH key: `{publicKey, name?, scope?, expiresAt?}`; it may do no more than the caller, and " +
        "lasts SVC_AUTH_KEY_MAX_AGE at most, and no longer than the key that the caller came with. A name other than the caller's needs the action `admin`.",
      handler: async (context) => {
        const { request, identity, log } = context;
        const wanted = await readTexts<EnrolKeyRequest>(request, "key", ["publicKey"], [
          "name",
          "scope",
          "expiresAt",
        ]);
        const own = identity.key === undefined ? undefined : keys.find(identity.key);
        const asked = requestedKey(wanted, keyMaxAge, own?.expires);
        context.about = `${asked.key.fingerprint} ${asked.name}`;
        mayEnrol(identity, asked, policy);
        // A key that is enrolled again without an expiry keeps its old expiry.
        const before = wanted.expiresAt === undefined && keys.find(asked.key.fingerprint);
        const key = before ? { ...asked, expires: before.expires } : asked;
        const added = await keys.add(key);
        const { key: { fingerprint }, name } = key;
        if (added) log.info("enrolled a key", { fingerprint, name, by: identity.subject });
        return json(enrolledKey({ ...key, source: "enrolled" }), { status: added ? 201 : 200 });
      },
    },
    {
      ...endpoint("DELETE /auth/keys/{fingerprint}"),
      action: "any",
      help:
        "Removes an enrolled SSH key, which ends its sessions; somebody else's needs the action " +
        "`admin`.",
      handler: async ({ params: { fingerprint }, identity, log }) => {
        const found = keys.list().find(({ key }) => key.fingerprint === fingerprint);
        if (found) requireKeysOf(found.name, identity, policy);
        await keys.remove(fingerprint);
        log.info("removed a key", { fingerprint, by: identity.subject });
        return new Response(null, { status: 204 });
      },
    },
  ];
}
