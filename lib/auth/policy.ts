/**
 * SVC_API_POLICY: which identity may do what. Without a policy whoever has the scope may do everything
 * the scope is for; with one, an action is granted by a rule or it is denied.
 */
import type { AuthMethod } from "../api/auth.ts";
import type { Action, Identity } from "../api/route.ts";
import { parseDocument, Place } from "./document.ts";
import { globMatches } from "./glob.ts";

export const ACTIONS = [
  "build",
  "deploy",
  "exec",
  "logs",
  "read",
  "push",
  "pull",
  "gc",
  "admin",
] as const satisfies Action[];
const METHODS = ["token", "jwt", "mtls", "ssh-key"] as const satisfies AuthMethod[];

/** Whoever may do the one needs the other for it. */
const IMPLIED: Partial<Record<Action, readonly Action[]>> = {
  deploy: ["exec", "logs", "read"],
  exec: ["read"],
  push: ["pull"],
};

interface Rule {
  subjects: string[];
  methods?: AuthMethod[];
  actions: Set<Action>;
}

export class Policy {
  readonly #rules: readonly Rule[];
  /** A rule names `pull`: then pulling too is for those only whom a rule allows it. */
  readonly restrictsPull: boolean;
  /** By identity object: verified tokens keep theirs. */
  readonly #granted = new WeakMap<Identity, ReadonlySet<Action>>();

  constructor(rules: readonly Rule[], restrictsPull: boolean) {
    this.#rules = rules;
    this.restrictsPull = restrictsPull;
  }

  /** Everything that the rules grant; nothing to an identity without a name. */
  actionsOf(identity: Identity): ReadonlySet<Action> {
    let granted = this.#granted.get(identity);
    if (!granted) this.#granted.set(identity, granted = this.#match(identity));
    return granted;
  }

  /** `any`: whether there is anything that it is granted. */
  allows(identity: Identity, action: Action | "any"): boolean {
    if (identity.subject === "") return false;
    if (action === "pull" && !this.restrictsPull) return true;
    const granted = this.actionsOf(identity);
    return action === "any" ? granted.size > 0 : granted.has(action);
  }

  #match({ subject, method }: Identity): Set<Action> {
    const granted = new Set<Action>();
    if (subject === "") return granted;
    for (const { subjects, methods, actions } of this.#rules) {
      if (methods && !methods.some((allowed) => allowed === method)) continue;
      if (!subjects.some((pattern) => globMatches(pattern, subject))) continue;
      for (const action of actions) granted.add(action);
    }
    return granted;
  }
}

function rule(value: unknown, place: Place): { rule: Rule; namesPull: boolean } {
  const fields = place.object(value, ["subjects", "methods", "actions"]);
  const subjects = place.at("subjects").texts(fields.subjects);
  const methods = fields.methods === undefined ? undefined : place.at("methods")
    .texts(fields.methods).map((word, n) => place.at("methods").at(n).word(word, METHODS));
  const words = place.at("actions").texts(fields.actions)
    .map((word, n) => place.at("actions").at(n).word<Action | "*">(word, [...ACTIONS, "*"]));
  const actions = new Set<Action>();
  for (const word of words) {
    for (const action of word === "*" ? ACTIONS : [word]) {
      actions.add(action);
      for (const implied of IMPLIED[action] ?? []) actions.add(implied);
    }
  }
  return { rule: { subjects, methods, actions }, namesPull: words.includes("pull") };
}

/** Parses a policy. Throws `config_invalid` with the place of the fault. */
export async function parsePolicy(text: string, document: string): Promise<Policy> {
  const place = new Place(document);
  const fields = place.object(await parseDocument(text, document), ["rules"]);
  const rules = place.at("rules").list(fields.rules)
    .map((value, n) => rule(value, place.at("rules").at(n)));
  return new Policy(rules.map(({ rule }) => rule), rules.some(({ namesPull }) => namesPull));
}
