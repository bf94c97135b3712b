/**
 * SPEC's variables whose subsystem this build lacks. They are parsed and refused by name: a server that ignored
 * SVC_EGRESS_POLICY would be open where its owner thinks it is closed.
 */
import type { AnyOption } from "./load.ts";
import type { Kinds } from "./option.ts";
import { type OptionTable, optionTable } from "./table.ts";

export type AbsentRow = [
  variable: string,
  kind: keyof Kinds,
  help: string,
  more?: {
    flag?: string;
    default?: Kinds[keyof Kinds];
    negatable?: boolean;
    env?: string[];
    verbatim?: boolean;
    check?: (value: never, source: string) => Kinds[keyof Kinds];
  },
];

/** A bool whose default is off. */
export const off = { default: false };

const camelCase = (variable: string) =>
  variable.slice("SVC_".length).toLowerCase()
    .replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());

/** `absent`: the name of the missing subsystem, for the error. */
export function absentTable(section: string, absent: string, rows: AbsentRow[]): OptionTable {
  return optionTable(rows.map(([variable, kind, help, more = {}]) =>
    // Each row's default and check fit its kind; server_options_test.ts loads every row.
    ({
      ...more,
      key: camelCase(variable),
      kind,
      env: [variable],
      section,
      help,
      absent,
    }) as AnyOption
  ));
}
