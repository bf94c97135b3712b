/**
 * What a backend does with each field of a deployment spec. Each backend has a list with an entry for every
 * field: the type checker refuses an incomplete list. So no field is dropped silently.
 */
import type { DeploySpec } from "../api/deploy_spec.ts";
import type { Item, Plain, Section } from "../api/deploy_spec_fields.ts";
import { SvcError } from "../base/errors.ts";

/**
 * The backend does not support the field: a spec that sets it is told the reason. False and empty values do not
 * count as set.
 */
export interface Told {
  readonly told: string;
}

/** The backend supports some values of the field. */
export interface Checked<V> {
  /** The supported values, for the reference page. */
  readonly only: string;
  /** The reason why this value is not supported; undefined: it is supported. */
  check(value: V, spec: DeploySpec): string | undefined;
}

/**
 * The rule of a field. For a list of texts, `Told` is reported once for the list, and `Checked` runs for each
 * item.
 */
export type FieldRule<V> = "honoured" | Told | Checked<V>;

type Whole<T> = [Plain<T>] extends [never] ? { readonly ""?: Checked<NonNullable<T>> }
  : { readonly "": FieldRule<NonNullable<T>> };

/**
 * The list of one backend. An object or a list of objects either has an entry for each field inside (and "" for
 * itself, where it is also checked as a whole), or is not supported at all.
 */
export type FieldRules<T = DeploySpec> = {
  readonly [K in keyof T]-?: [Section<T[K]>] extends [never] ? FieldRule<Item<NonNullable<T[K]>>>
    : Told | (FieldRules<Section<T[K]>> & Whole<T[K]>);
};

/** {@linkcode FieldRules} without the types of values. */
export type AnyRule = FieldRule<unknown>;
export interface AnyRules {
  readonly [name: string]: AnyRule | AnyRules;
}

const isRule = (entry: AnyRule | AnyRules): entry is AnyRule =>
  entry === "honoured" || "told" in entry || "only" in entry;

/**
 * The rule of a field by its path ("volumes[].labels"), or of the field that contains it. For an object: its
 * rule as a whole.
 */
export function ruleAt(rules: FieldRules, path: string): AnyRule | undefined {
  let entry: AnyRule | AnyRules | undefined = rules as unknown as AnyRules;
  for (const name of path.replaceAll("[]", "").split(".")) {
    if (entry === undefined || isRule(entry)) break;
    entry = entry[name];
  }
  return entry === undefined || isRule(entry) ? entry : entry[""] as AnyRule | undefined;
}

function isSet(value: unknown): boolean {
  if (value === undefined || value === null || value === false) return false;
  if (Array.isArray(value)) return value.length > 0;
  return typeof value !== "object" || Object.values(value).some(isSet);
}

/** One line for each field that is set and not supported: "networks[1].mac: the reason". */
export function fieldWarnings(spec: DeploySpec, rules: FieldRules): string[] {
  const warnings: string[] = [];
  const warn = (path: string, reason: string | undefined) => {
    if (reason !== undefined) warnings.push(`${path}: ${reason}`);
  };
  const apply = (path: string, value: unknown, rule: AnyRule) => {
    if (rule === "honoured" || value === undefined) return;
    if ("told" in rule) return isSet(value) ? warn(path, rule.told) : undefined;
    const items = Array.isArray(value) && value.every((item) => typeof item !== "object");
    if (!items) return warn(path, rule.check(value, spec));
    for (const [i, item] of value.entries()) warn(`${path}[${i}]`, rule.check(item, spec));
  };
  const walk = (path: string, value: unknown, entry: AnyRule | AnyRules) => {
    if (isRule(entry)) return apply(path, value, entry);
    const { "": whole, ...fields } = entry;
    const inside = (at: string, object: unknown) => {
      if (object === null || typeof object !== "object") return;
      const members = object as Record<string, unknown>;
      for (const [name, rule] of Object.entries(fields)) {
        walk(at === "" ? name : `${at}.${name}`, members[name], rule);
      }
    };
    if (Array.isArray(value)) value.forEach((item, i) => inside(`${path}[${i}]`, item));
    else inside(path, value);
    if (whole !== undefined) apply(path, value, whole as AnyRule);
  };
  walk("", spec, rules as unknown as AnyRules);
  return warnings;
}

/** Throws `unsupported` where the spec is strict and there are warnings. */
export function refuseIfStrict(spec: DeploySpec, warnings: string[]): void {
  if (!spec.strict || warnings.length === 0) return;
  throw new SvcError("unsupported", `Cannot deploy ${spec.name}: ${warnings.join("; ")}`, {
    help: "remove the fields, leave out strict, or choose a backend that honours them",
    detail: { warnings },
  });
}
