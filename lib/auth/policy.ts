/**
 * SVC_API_POLICY: which identity may do what. Without a policy, a scope grants everything that it covers. With
 * a policy, an action is denied unless a rule grants it.
 */
import type { AuthMethod } from "../api/auth.ts";
import type { Action, Identity } from "../api/route.ts";
import { DocumentPath, parseDocument } from "./document.ts";
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

/** Actions that an action needs, and therefore grants. */
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
  /** True where a rule names `pull`: then pulling needs a rule, too. */
  readonly restrictsPull: boolean;
  /** By identity object: a verified token keeps its object. */
  readonly #granted = new WeakMap<Identity, ReadonlySet<Action>>();

  constructor(rules: readonly Rule[], restrictsPull: boolean) {
    this.#rules = rules;
    this.restrictsPull = restrictsPull;
  }

  /** The actions that the rules grant; none for an identity without a name. */
  actionsOf(identity: Identity): ReadonlySet<Action> {
    let granted = this.#granted.get(identity);
    if (!granted) this.#granted.set(identity, granted = this.#match(identity));
    return granted;
  }

  /** `any`: whether the identity is granted any action. */
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

function rule(value: unknown, place: DocumentPath): { rule: Rule; namesPull: boolean } {
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

/** Parses a policy. Throws `config_invalid` with the place of the error. */
export async function parsePolicy(text: string, document: string): Promise<Policy> {
  const place = new DocumentPath(document);
  const fields = place.object(await parseDocument(text, document), ["rules"]);
  const rules = place.at("rules").list(fields.rules)
    .map((value, n) => rule(value, place.at("rules").at(n)));
  return new Policy(rules.map(({ rule }) => rule), rules.some(({ namesPull }) => namesPull));
}
