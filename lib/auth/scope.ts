/** Scopes: what a credential may be used for. Within its scopes, the policy decides what its bearer may do. */
import { SvcError } from "../base/errors.ts";
import { suggestion } from "../base/nearest.ts";
import type { Action, Route } from "../api/route.ts";

export const SCOPES = ["api", "registry:pull", "registry:push", "caretaker", "peer"] as const;
export type Scope = typeof SCOPES[number];

/** What each scope means, for the reference page. */
export const SCOPE_HELP: Record<Scope, string> = {
  "api": "the management API and the registry, as `registry:push`",
  "registry:pull": "reading under `/v2/`",
  "registry:push": "reading and writing under `/v2/`",
  "caretaker": "callbacks of a workload's sidecar",
  "peer": "relays between replicas of one server",
};

const IMPLIED: Partial<Record<string, readonly Scope[]>> = {
  "api": ["registry:pull", "registry:push"],
  "registry:push": ["registry:pull"],
};

/** True where `held` has the scope, or one that includes it. */
export function grantsScope(held: readonly string[], wanted: string): boolean {
  return held.some((scope) =>
    scope === wanted || (IMPLIED[scope] as readonly string[] | undefined)?.includes(wanted)
  );
}

/** Scopes of a text in OAuth's form, separated by spaces. Throws `argument_invalid` for unknown ones. */
export function parseScopes(text: string, what: string): Scope[] {
  const words = text.split(/[\s,]+/).filter((word) => word !== "");
  if (words.length === 0) {
    throw new SvcError("argument_invalid", `Cannot read ${what}: it names no scope`, {
      help: `choose from ${SCOPES.join(", ")}`,
    });
  }
  return words.map((word) => {
    const scope = SCOPES.find((known) => known === word);
    if (scope) return scope;
    throw new SvcError(
      "argument_invalid",
      `Cannot read ${what}: ${JSON.stringify(word)} is not a scope${suggestion(word, SCOPES)}`,
      { help: `choose from ${SCOPES.join(", ")}` },
    );
  });
}

/** The scope that a route's row needs; a row without one needs the management API's. */
export function scopeOf({ scope, action }: Pick<Route, "scope" | "action">): string {
  return scope ?? scopeFor(action);
}

/** The scope of routes with this action. */
export function scopeFor(action: Action | "any" | undefined): string {
  return action === "pull" || action === "push" ? `registry:${action}` : "api";
}
