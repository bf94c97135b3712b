/**
 * SVC_JWT_SCOPE_MAP: maps the claims of a third party's tokens to svc's scopes. The first rule decides whose
 * claims all match and whose subject can be filled in.
 */
import { DocumentPath, parseDocument } from "../document.ts";
import { globMatches } from "../glob.ts";
import { parseScopes, type Scope } from "../scope.ts";

export type Claims = Readonly<Record<string, unknown>>;

type Pattern = string | number | boolean;

interface Rule {
  claims: [path: string, patterns: Pattern[]][];
  scopes: Scope[];
  subject?: string;
}

export interface Mapped {
  scopes: readonly Scope[];
  /** The identity, where the rule has a template for it. */
  subject?: string;
}

/** A claim by its name, or by a JSON pointer (RFC 6901) where `path` begins with a slash. */
function claimAt(claims: Claims, path: string): unknown {
  const steps = path.startsWith("/")
    ? path.slice(1).split("/").map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"))
    : [path];
  let value: unknown = claims;
  for (const step of steps) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, step)) {
      return undefined;
    }
    value = (value as Record<string, unknown>)[step];
  }
  return value;
}

/** For a claim that is a list, one matching entry is enough. */
function matches(value: unknown, patterns: readonly Pattern[]): boolean {
  if (Array.isArray(value)) {
    return value.some((item) => !Array.isArray(item) && matches(item, patterns));
  }
  return patterns.some((pattern) =>
    typeof pattern === "string" && typeof value === "string"
      ? globMatches(pattern, value)
      : pattern === value
  );
}

const PLACEHOLDER = /\{([^{}]+)\}/g;

export class ScopeMap {
  readonly #rules: readonly Rule[];

  constructor(rules: readonly Rule[]) {
    this.#rules = rules;
  }

  /** Undefined where no rule matches. */
  map(claims: Claims): Mapped | undefined {
    for (const { claims: wanted, scopes, subject } of this.#rules) {
      if (!wanted.every(([path, patterns]) => matches(claimAt(claims, path), patterns))) continue;
      if (subject === undefined) return { scopes };
      const filled = fill(subject, claims);
      if (filled !== undefined) return { scopes, subject: filled };
    }
    return undefined;
  }
}

/** Undefined where a placeholder's claim is not text: a partial name could be another caller's identity. */
function fill(template: string, claims: Claims): string | undefined {
  let whole = true;
  const text = template.replace(PLACEHOLDER, (_, path: string) => {
    const value = claimAt(claims, path);
    if (typeof value === "string" && value !== "" || typeof value === "number") {
      return String(value);
    }
    whole = false;
    return "";
  });
  return whole ? text : undefined;
}

function patterns(value: unknown, place: DocumentPath): Pattern[] {
  const items = Array.isArray(value) ? place.list(value) : [value];
  return items.map((item, n) => {
    if (typeof item === "string" || typeof item === "number" || typeof item === "boolean") {
      return item;
    }
    throw (Array.isArray(value) ? place.at(n) : place).wrong("expected a text, number or boolean");
  });
}

function rule(value: unknown, place: DocumentPath): Rule {
  const fields = place.object(value, ["claims", "scope", "subject"]);
  const claims = Object.entries(place.at("claims").object(fields.claims))
    .map(([path, value]): [string, Pattern[]] => [
      path,
      patterns(value, place.at("claims").at(path)),
    ]);
  if (claims.length === 0) {
    throw place.at("claims").wrong(
      "a rule without claims matches every token",
      "name a claim, or use SVC_JWT_DEFAULT_SCOPE",
    );
  }
  const scope = place.at("scope");
  let scopes: Scope[];
  try {
    scopes = parseScopes(scope.texts(fields.scope).join(" "), "the scope");
  } catch (error) {
    throw scope.wrong((error as Error).message.replace(/^Cannot read the scope: /, ""));
  }
  const subject = fields.subject === undefined
    ? undefined
    : place.at("subject").text(fields.subject);
  return { claims, scopes, subject };
}

/** Parses a scope map. Throws `config_invalid` with the place of the fault. */
export async function parseScopeMap(text: string, document: string): Promise<ScopeMap> {
  const place = new DocumentPath(document);
  const fields = place.object(await parseDocument(text, document), ["rules"]);
  return new ScopeMap(
    place.at("rules").list(fields.rules).map((value, n) => rule(value, place.at("rules").at(n))),
  );
}
