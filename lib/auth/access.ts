/** The server's access checks where authentication or a policy is configured. */
import type { AuthMethod } from "../api/auth.ts";
import type { WellKnown } from "../api/info.ts";
import type { Action, Connection, Identity, Route } from "../api/route.ts";
import { SvcError } from "../base/errors.ts";
import type { Authenticator } from "./authenticator.ts";
import { DELIVER, INTERNAL_METHOD, MAY_NOT_PULL_VIA } from "./internal.ts";
import type { Policy } from "./policy.ts";
import { grantsScope, scopeOf } from "./scope.ts";

export interface AccessOptions {
  /** Absent: there is a policy without authentication, which denies every action. */
  authenticator?: Authenticator;
  policy?: Policy;
  /** SVC_REGISTRY_ANONYMOUS_PULL is set, and no rule of the policy names `pull`. */
  anonymousPull?: boolean;
  /** Path of the registry's token endpoint, where the server has one. */
  registryTokens?: string;
  endpoints?: Pick<WellKnown, "tokenEndpoint" | "keyAuth">;
}

/** The identity of a caller without a credential, where none is needed. */
export const NOBODY: Identity = { subject: "", scopes: [] };
export const ANONYMOUS_PULLER: Identity = {
  subject: "anonymous",
  scopes: ["registry:pull"],
  method: "anonymous",
};

const isRegistry = (path: string) => path === "/v2" || path.startsWith("/v2/");
const isPing = (path: string) => path === "/v2" || path === "/v2/";

/** The server's `Access`. */
export class ConfiguredAccess {
  readonly methods: readonly AuthMethod[];
  readonly endpoints: AccessOptions["endpoints"];
  readonly #options: AccessOptions;

  constructor(options: AccessOptions) {
    this.#options = options;
    this.endpoints = options.endpoints;
    this.methods = options.authenticator?.methods ?? [];
  }

  /** Undefined: the request needs a credential. Throws `unauthorized` for a bad credential. */
  authenticate(
    request: Request,
    connection: Connection,
    route: Route,
  ): Promise<Identity> | Identity | undefined {
    const { authenticator, anonymousPull } = this.#options;
    if (!authenticator) return NOBODY;
    const identity = authenticator.identify(request, connection, route.path.startsWith("/v2"));
    if (identity) return identity;
    // The first request of docker and podman (`/v2/`) is challenged nevertheless: from the challenge they learn
    // how to log in before a push.
    return anonymousPull && route.action === "pull" && !isPing(route.path)
      ? ANONYMOUS_PULLER
      : undefined;
  }

  /** Throws `denied` naming the missing scope or action; `unauthorized` where logging in could help. */
  authorize(route: Route, identity: Identity, request: Request): void {
    const { policy, authenticator } = this.#options;
    const attempt = () => `Cannot ${request.method} ${new URL(request.url).pathname}`;
    const scope = scopeOf(route);
    if (delivers(identity, route, request)) return;
    if (authenticator && !grantsScope(identity.scopes, scope)) {
      const why = `${attempt()}: the credential of ${shown(identity)} lacks the scope ${scope}`;
      if (identity.method === "anonymous") throw new SvcError("unauthorized", why);
      throw new SvcError("denied", why, { detail: { scope } });
    }
    const { action } = route;
    const own = request.headers.get("via")?.includes(MAY_NOT_PULL_VIA);
    if (own && action === "pull" && request.method !== "HEAD") {
      throw new SvcError("denied", `${attempt()}: it is for a caller whom no rule allows to pull`, {
        help: "ask for the action pull in the server's policy",
        detail: { action },
      });
    }
    // The scope of its credential alone limits the server's own traffic.
    if (action === undefined || !policy || identity.method === INTERNAL_METHOD) return;
    if (policy.allows(identity, action)) return;
    if (action === "any") {
      throw new SvcError("denied", `${attempt()}: no rule allows ${shown(identity)} anything`, {
        help: "ask for an action in the server's policy",
      });
    }
    throw new SvcError("denied", `${attempt()}: no rule allows ${shown(identity)} to ${action}`, {
      help: `ask for the action ${action} in the server's policy`,
      detail: { action },
    });
  }

  get perIdentity(): boolean {
    return this.#options.policy !== undefined;
  }

  /** What the policy grants. Without a policy, the scopes that `authorize` checked are enough. */
  allows(identity: Identity, action: Action): boolean {
    const { policy } = this.#options;
    return !policy || identity.method === INTERNAL_METHOD || policy.allows(identity, action);
  }

  /** The `WWW-Authenticate` of a 401. */
  challenge(request: Request, path: string): string {
    if (!isRegistry(path)) return 'Bearer realm="svc"';
    const { anonymousPull, registryTokens } = this.#options;
    if (!anonymousPull || registryTokens === undefined) return 'Basic realm="svc"';
    // A client that is not logged in gives up at a Basic challenge. For Bearer it can get a token without a
    // login.
    const realm = new URL(registryTokens, request.url);
    // Set by a proxy that ends TLS. A forged value only turns http into https.
    if (request.headers.get("x-forwarded-proto") === "https") realm.protocol = "https:";
    return `Bearer realm="${realm.href}",service="svc"`;
  }
}

/** True for requests that a delivery needs: writes, and the existence checks before them. */
function delivers({ method, scopes }: Identity, { action }: Route, request: Request): boolean {
  return method === INTERNAL_METHOD && scopes.includes(DELIVER) &&
    (action === "push" || action === "pull" && request.method === "HEAD");
}

const shown = ({ subject }: Identity) => subject === "" ? "nobody" : JSON.stringify(subject);
