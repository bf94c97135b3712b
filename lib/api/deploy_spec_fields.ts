/**
 * The shape of the deployment spec as a type, for tables that must have an entry for each of its fields. A
 * table of type {@linkcode FieldTable} that lacks a field, or has one too many, is a type error.
 */
import type { DeploySpec } from "./deploy_spec.ts";

/** The element of a list; any other type unchanged. */
export type Item<T> = T extends readonly (infer I)[] ? I : T;

type Part<T> = T extends object ? string extends keyof T ? never : T : never;

/**
 * The type whose members are fields. Texts, numbers, lists of them and maps with user-defined keys have none.
 */
export type Section<T> = Part<Item<NonNullable<T>>>;

/** The other types of a field that may also be a section: the boolean of `ingress.tls`. */
export type Plain<T> = Exclude<Item<NonNullable<T>>, Section<T>>;

/** One field: its meaning, an example as a user may write it, and the fields inside it. */
export type FieldEntry<Fields = unknown> = readonly [
  help: string,
  example: unknown,
  fields?: Fields,
];

export type FieldTable<T = DeploySpec> = {
  readonly [K in keyof T]-?: [Section<T[K]>] extends [never] ? readonly [string, unknown]
    : readonly [string, unknown, FieldTable<Section<T[K]>>];
};
