/**
 * The options of one subsystem or backend, and their values. A subsystem gets the values of the tables that it
 * names, and no others.
 */
import type { AnyOption, Values } from "./load.ts";

export interface OptionTable<T extends readonly AnyOption[] = readonly AnyOption[]> {
  readonly options: T;
  /** Throws `config_invalid` for values that contradict each other. */
  check?(values: Values<T>): void;
}

/** The values of these tables in one record; keys are unique among all tables. */
export type SettingsOf<T extends readonly OptionTable[]> = {
  [I in keyof T]: (values: Values<T[I]["options"]>) => void;
}[number] extends (values: infer V) => void ? { [K in keyof V]: V[K] } : never;

export function optionTable<const T extends readonly AnyOption[]>(
  options: T,
  check?: (values: Values<T>) => void,
): OptionTable<T> {
  return { options, ...check && { check } };
}

/** Loads a module that needs these tables, and passes it their values. */
export function reading<const T extends readonly OptionTable[], M>(
  tables: T,
  load: () => Promise<(settings: SettingsOf<T>) => M>,
): (settings: Settings) => Promise<M> {
  return async (settings) => (await load())(settings.of(...tables));
}

/** The values that were read, by table. */
export class Settings {
  readonly #values: ReadonlyMap<OptionTable, object>;

  constructor(values: ReadonlyMap<OptionTable, object>) {
    this.#values = values;
  }

  /** The values of these tables only. Throws for a table that was not read. */
  of<const T extends readonly OptionTable[]>(...tables: T): SettingsOf<T> {
    const own = tables.map((table) => {
      const values = this.#values.get(table);
      if (!values) throw new Error(`no values were read for ${table.options[0]?.key}`);
      return values;
    });
    return Object.assign({}, ...own);
  }
}
