/** `svc start|stop|restart|rm NAME…`: handles each name by itself; after a failure the others follow. */
import { asSvcError, SvcError } from "../base/errors.ts";
import { deleteDeployment, type PowerAction, powerDeployment } from "../client/deployments.ts";
import type { CommandModule, Invocation } from "./command.ts";
import { connect, openConnection } from "./connect.ts";
import { errorLines } from "./dispatch.ts";
import type { NO_OPTIONS, REMOVE_OPTIONS } from "./options.ts";

export interface ForEachName<T> {
  act: (name: string) => Promise<T>;
  /** Absent: the name, or with `--output json` what `act` gave. */
  show?: (name: string, done: T) => string;
}

/** Acts on each name. The exit code is that of the first failure. */
export async function forEachName<T>(
  { io, values }: Pick<Invocation, "io" | "values">,
  names: readonly string[],
  { act, show }: ForEachName<T>,
): Promise<number> {
  const plain = (name: string, done: T) =>
    `${values.output === "json" ? JSON.stringify(done ?? { name }) : name}\n`;
  let code = 0;
  for (const name of names) {
    let done: T;
    try {
      done = await act(name);
    } catch (error) {
      io.signal.throwIfAborted();
      const known = asSvcError(error);
      // A server that cannot be reached for the first name will not be for the others.
      if (known.code === "server_unreachable") throw known;
      await io.stderr.write(errorLines(known));
      code ||= known.exit;
      continue;
    }
    await io.stdout.write((show ?? plain)(name, done));
  }
  return code;
}

function power(action: PowerAction): CommandModule<typeof NO_OPTIONS> {
  return {
    async run(invocation) {
      const client = await connect(invocation);
      return await forEachName(invocation, invocation.positionals, {
        act: (name) => powerDeployment(client, name, action),
      });
    },
  };
}

export const start = power("start");
export const stop = power("stop");
export const restart = power("restart");

/** Removes a thing by its name; `force`: one that does not exist is not an error. */
export async function removeEach(
  invocation: Pick<Invocation<typeof REMOVE_OPTIONS>, "io" | "values">,
  names: readonly string[],
  act: (name: string) => Promise<void>,
): Promise<number> {
  return await forEachName(invocation, names, {
    async act(name) {
      try {
        await act(name);
      } catch (error) {
        const missing = error instanceof SvcError && error.code === "not_found";
        if (!missing || !invocation.values.force) throw error;
      }
    },
  });
}

export const remove: CommandModule<typeof REMOVE_OPTIONS> = {
  async run(invocation) {
    const { client, target } = await openConnection(invocation);
    const { releaseHeld } = await import("./daemon/release.ts");
    return await removeEach(invocation, invocation.positionals, async (name) => {
      const missing = await deleteDeployment(client, name).then(() => undefined, (error) => {
        if (error instanceof SvcError && error.code === "not_found") return error;
        throw error;
      });
      await releaseHeld(invocation, target, { name });
      if (missing) throw missing;
    });
  },
};
