/** The row of the command table, and the values that its code gets. */
import type { Io } from "../base/terminal.ts";
import type { Connection } from "../client/connection.ts";
import type { AnyOption, Values } from "../config/load.ts";
import type { GLOBAL_OPTIONS } from "./options.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

/** What one operation of a bucket did when it was tried. */
export interface StorageProbe {
  operation: string;
  ok: boolean;
  /** True where the store cannot work without the operation; else `detail` names the substitute. */
  needed: boolean;
  detail: string;
}

/** Functions of the backends that commands need and only the composition root can give. */
export interface Hooks {
  /** Tries each operation that a store needs, in the bucket of a value of SVC_STORAGE. */
  probeStorage(location: string, signal: AbortSignal): AsyncIterable<StorageProbe>;
}

/** One call of a command; its values are loaded and checked. */
export interface Invocation<T extends readonly AnyOption[] = readonly []> {
  values: Values<T> & Values<typeof GLOBAL_OPTIONS>;
  positionals: string[];
  /** Source of each value ("--server", "SVC_SERVER"), by key; no entry for a default. */
  sources?: Partial<Record<string, string>>;
  env: Environment;
  io: Io;
  /** Disposed of when the command ends: tunnels, sockets, helper processes. */
  cleanup?: AsyncDisposableStack;
  /** Open already, where one command runs another. */
  connection?: Connection;
  /** The command table; absent in tests of single commands. */
  commands?: readonly Command[];
  /** Absent in tests of other commands. */
  hooks?: Hooks;
}

export interface CommandModule<T extends readonly AnyOption[]> {
  /** Resolves to the exit code; throws `SvcError`, which becomes the error line. */
  run(invocation: Invocation<T>): Promise<number>;
}

/** A row of the command table, for `svc --help`, the parser and the reference page. */
export interface Command {
  name: string;
  /** The rest of the usage line after "svc NAME". */
  usage: string;
  summary: string;
  description?: string;
  options: readonly AnyOption[];
  examples?: readonly string[];
  /** The number of positional words; absent: none are allowed. */
  positionals?: { min: number; max: number; names: string };
  /** After this many words the rest is a command line of the user's. */
  passThroughAfter?: number;
  /**
   * Commands of its own: `svc NAME [OPTIONS] CHILD …`. Its options stand before the child's name, and their values
   * are the child's too; where a child has an option of the same key, the child's own value counts.
   */
  children?: readonly Command[];
  /** Absent for `serve`, which the composition root runs, and for a command with `children`. */
  load?: () => Promise<CommandModule<readonly AnyOption[]>>;
}

/** Ties a row's options to the type its module expects. */
export function command<const T extends readonly AnyOption[]>(
  row: Omit<Command, "options" | "load"> & {
    options: T;
    run: () => Promise<CommandModule<T>>;
  },
): Command {
  const { run, ...rest } = row;
  return { ...rest, load: run as unknown as Command["load"] };
}
