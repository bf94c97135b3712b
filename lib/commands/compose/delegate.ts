/** One command of svc run by another: with words of its own, on the connection that is open. */
import type { Connection } from "../../client/connection.ts";
import { type AnyOption, loadOptions } from "../../config/load.ts";
import type { Invocation } from "../command.ts";
import type { ProjectInvocation } from "./open_project.ts";

export interface Delegated<T extends readonly AnyOption[]> {
  module: { run(invocation: Invocation<T>): Promise<number> };
  options: T;
  /** Flags and words, as a person writes them. */
  args: readonly string[];
  connection: Connection;
  /** As in the command's row. */
  passThroughAfter?: number;
  /** Nothing is written to standard output. */
  silent?: boolean;
}

export async function delegate<const T extends readonly AnyOption[]>(
  invocation: ProjectInvocation,
  { module, options, args, connection, passThroughAfter, silent }: Delegated<T>,
): Promise<number> {
  const { io } = invocation;
  const { values, positionals, sources } = loadOptions(options, {
    args,
    env: invocation.env,
    allowPositionals: true,
    passThroughAfter,
  });
  return await module.run(
    {
      ...invocation,
      ...(silent && { io: { ...io, stdout: { ...io.stderr, write: () => Promise.resolve() } } }),
      connection,
      positionals,
      values: { ...invocation.values, ...values },
      sources: { ...invocation.sources, ...sources },
    } as Invocation<T>,
  );
}
