/** What a row of the command table is, and what its code is run with. */
import type { Io } from "../base/terminal.ts";
import type { AnyOption, Values } from "../config/load.ts";
import type { GLOBAL_OPTIONS } from "./options.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

/** What one operation of a bucket did when it was tried. */
export interface StorageProbe {
  operation: string;
  ok: boolean;
  /** Without it the store does not work; others have a substitute that `detail` names. */
  needed: boolean;
  detail: string;
}

/** What commands need of the backends, which only the composition root knows. */
export interface Hooks {
  /** Tries every operation that a store in the bucket of a value of SVC_STORAGE needs. */
  probeStorage(location: string, signal: AbortSignal): AsyncIterable<StorageProbe>;
}

/** One call of a command: its values are loaded and checked. */
export interface Invocation<T extends readonly AnyOption[] = readonly []> {
  values: Values<T> & Values<typeof GLOBAL_OPTIONS>;
  positionals: string[];
  /** Where a value came from ("--server", "SVC_SERVER"), by key; no entry where the default holds. */
  sources?: Partial<Record<string, string>>;
  env: Environment;
  io: Io;
  /** Ends with the command: tunnels, sockets, helper processes. */
  cleanup?: AsyncDisposableStack;
  /** The command table; absent as the hooks are. */
  commands?: readonly Command[];
  /** Absent where nothing was composed, as in tests of other commands. */
  hooks?: Hooks;
}

export interface CommandModule<T extends readonly AnyOption[]> {
  /** Resolves to the exit code; throws `SvcError` for the one error line. */
  run(invocation: Invocation<T>): Promise<number>;
}

/** A row: everything `svc --help`, the parser and the reference page know of a command. */
export interface Command {
  name: string;
  /** What follows "svc NAME" in the usage line. */
  usage: string;
  summary: string;
  description?: string;
  options: readonly AnyOption[];
  examples?: readonly string[];
  /** How many words it takes; absent: none. */
  positionals?: { min: number; max: number; names: string };
  /** After this many words the rest belongs to a command of the user's. */
  passThroughAfter?: number;
  /** Absent for `serve`, which the composition root runs. */
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
