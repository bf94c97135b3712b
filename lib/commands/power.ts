/** `svc start|stop|restart|rm NAME…`: handles each name by itself; after a failure the others follow. */
import { asSvcError, SvcError } from "../base/errors.ts";
import type { Client } from "../client/client.ts";
import { deleteDeployment, type PowerAction, powerDeployment } from "../client/deployments.ts";
import type { CommandModule, Invocation } from "./command.ts";
import { connect } from "./connect.ts";
import { errorLines } from "./dispatch.ts";
import type { NO_OPTIONS, REMOVE_OPTIONS } from "./options.ts";

/** Prints the names that succeeded; the exit code is that of the first failure. */
async function forEach(
  { io, values, positionals }: Pick<Invocation, "io" | "values" | "positionals">,
  client: Client,
  act: (client: Client, name: string) => Promise<unknown>,
): Promise<number> {
  let code = 0;
  for (const name of positionals) {
    let done: unknown;
    try {
      done = await act(client, name);
    } catch (error) {
      io.signal.throwIfAborted();
      const known = asSvcError(error);
      // A server that cannot be reached for the first name will not be for the others.
      if (known.code === "server_unreachable") throw known;
      await io.stderr.write(errorLines(known));
      code ||= known.exit;
      continue;
    }
    const line = values.output === "json" ? JSON.stringify(done ?? { name }) : name;
    await io.stdout.write(line + "\n");
  }
  return code;
}

function power(action: PowerAction): CommandModule<typeof NO_OPTIONS> {
  return {
    run: async (invocation) =>
      await forEach(
        invocation,
        await connect(invocation),
        (client, name) => powerDeployment(client, name, action),
      ),
  };
}

export const start = power("start");
export const stop = power("stop");
export const restart = power("restart");

export const remove: CommandModule<typeof REMOVE_OPTIONS> = {
  async run(invocation) {
    return await forEach(invocation, await connect(invocation), async (client, name) => {
      try {
        await deleteDeployment(client, name);
      } catch (error) {
        const missing = error instanceof SvcError && error.code === "not_found";
        if (!missing || !invocation.values.force) throw error;
      }
    });
  },
};
