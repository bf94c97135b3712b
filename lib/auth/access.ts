/** What a server asks of a request once authentication or a policy is configured. */
import type { AuthMethod } from "../api/auth.ts";
import type { WellKnown } from "../api/info.ts";
import type { Action, Connection, Identity, Route } from "../api/route.ts";
import { SvcError } from "../base/errors.ts";
import type { Authenticator } from "./authenticator.ts";
import { DELIVER, INTERNAL_METHOD, MAY_NOT_PULL_VIA } from "./internal.ts";
import type { Policy } from "./policy.ts";
import { grantsScope, scopeOf } from "./scope.ts";

export interface AccessOptions {
  /** Absent: a policy without authentication, which denies every action. */
  authenticator?: Authenticator;
  policy?: Policy;
  /** SVC_REGISTRY_ANONYMOUS_PULL, and no rule of the policy names `pull`. */
  anonymousPull?: boolean;
  /** Path of the registry's token endpoint, where the server has one. */
  registryTokens?: string;
  endpoints?: Pick<WellKnown, "tokenEndpoint" | "keyAuth">;
}

/** Whoever sends no credential where none is needed. */
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

  /** Undefined: a credential is needed. Throws `unauthorized` for one that is not good. */
  authenticate(
    request: Request,
    connection: Connection,
    route: Route,
  ): Promise<Identity> | Identity | undefined {
    const { authenticator, anonymousPull } = this.#options;
    if (!authenticator) return NOBODY;
    const identity = authenticator.identify(request, connection, route.path.startsWith("/v2"));
    if (identity) return identity;
    // The first question of docker and podman is answered with the challenge all the same: from it they
    // learn how to log in before a push.
    return anonymousPull && route.action === "pull" && !isPing(route.path)
      ? ANONYMOUS_PULLER
      : undefined;
  }

  /** Throws `denied` naming what is missing; `unauthorized` where logging in could help. */
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
    // The server's own traffic is bounded by the scope of its credential.
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

  /** What a policy says besides; without one the scopes that `authorize` looked at are all there is. */
  allows(identity: Identity, action: Action): boolean {
    const { policy } = this.#options;
    return !policy || identity.method === INTERNAL_METHOD || policy.allows(identity, action);
  }

  /** The `WWW-Authenticate` of a 401. */
  challenge(request: Request, path: string): string {
    if (!isRegistry(path)) return 'Bearer realm="svc"';
    const { anonymousPull, registryTokens } = this.#options;
    if (!anonymousPull || registryTokens === undefined) return 'Basic realm="svc"';
    // With Basic a client that is not logged in gives up; a token it also gets without a login.
    const realm = new URL(registryTokens, request.url);
    // Behind a proxy that ends TLS; a wrong claim only makes the way safer.
    if (request.headers.get("x-forwarded-proto") === "https") realm.protocol = "https:";
    return `Bearer realm="${realm.href}",service="svc"`;
  }
}

/** True for what delivering needs: writing, and asking before it whether something is there. */
function delivers({ method, scopes }: Identity, { action }: Route, request: Request): boolean {
  return method === INTERNAL_METHOD && scopes.includes(DELIVER) &&
    (action === "push" || action === "pull" && request.method === "HEAD");
}

const shown = ({ subject }: Identity) => subject === "" ? "nobody" : JSON.stringify(subject);
