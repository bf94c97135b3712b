/** Authentication and authorization of requests: verifiers and policies are put in here. */
import type { WellKnown } from "../api/info.ts";
import type { Action, Connection, Identity, Route } from "./route.ts";

export interface Access {
  /** Accepted methods, as `/.well-known/svc` lists them. Empty: the server asks for no credential. */
  readonly methods: readonly string[];
  /** Where a credential can be had, as `/.well-known/svc` tells it. */
  readonly endpoints?: Pick<WellKnown, "tokenEndpoint" | "keyAuth">;
  /**
   * Undefined: the request has no credential. Throws `unauthorized` for a bad credential. Not called for open
   * routes.
   */
  authenticate(
    request: Request,
    connection: Connection,
    route: Route,
  ): Promise<Identity> | Identity | undefined;
  /** Throws `denied` naming the missing scope or action. */
  authorize(route: Route, identity: Identity, request: Request): void;
  /** True where a policy tells identities apart: then what a build caches is for later builds of its caller alone. */
  readonly perIdentity?: boolean;
  /** Whether an action that comes with another action is granted too. */
  allows(identity: Identity, action: Action): boolean;
  /** `WWW-Authenticate` of a 401 answered to this request. */
  challenge(request: Request, path: string): string;
}

export const ANONYMOUS: Identity = { subject: "anonymous", scopes: [] };

/** SPEC "Authentication" 1: with no authentication configured, requests need no credential. */
export const openAccess: Access = {
  methods: [],
  authenticate: () => ANONYMOUS,
  authorize: () => {},
  allows: () => true,
  challenge: () => 'Bearer realm="svc"',
};
