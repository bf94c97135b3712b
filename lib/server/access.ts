/** Who asks, and what they may: the seam where verifiers and policies are put in. */
import type { WellKnown } from "../api/info.ts";
import type { Action, Connection, Identity, Route } from "./route.ts";

export interface Access {
  /** Accepted methods, as `/.well-known/svc` tells them; empty: no credential is asked for. */
  readonly methods: readonly string[];
  /** Where a credential can be had, as `/.well-known/svc` tells it. */
  readonly endpoints?: Pick<WellKnown, "tokenEndpoint" | "keyAuth">;
  /** Undefined: no credential. Throws `unauthorized` for one that is not good. Not called for open routes. */
  authenticate(
    request: Request,
    connection: Connection,
    route: Route,
  ): Promise<Identity> | Identity | undefined;
  /** Throws `denied` naming the missing scope or action. */
  authorize(route: Route, identity: Identity, request: Request): void;
  /** A policy tells identities apart: what a build writes for later ones is for its own caller's. */
  readonly perIdentity?: boolean;
  /** Whether an action that another one brings along is granted too. */
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
