/** `svc kill|pause|unpause NAME…`: handles each name by itself; after a failure the others follow. */
import { SvcError } from "../base/errors.ts";
import { signalNumber } from "../base/signals.ts";
import { freezeDeployment, signalDeployment } from "../client/workloads.ts";
import type { CommandModule } from "./command.ts";
import { connect } from "./connect.ts";
import { forEachName } from "./power.ts";
import type { INSTANCE_OPTIONS, KILL_OPTIONS } from "./workload_options.ts";

export const kill: CommandModule<typeof KILL_OPTIONS> = {
  async run(invocation) {
    const { values: { signal, instance }, positionals } = invocation;
    if (signalNumber(signal) === undefined) {
      throw new SvcError(
        "usage",
        `Cannot read --signal ${JSON.stringify(signal)}: there is no such signal`,
        { help: "name one, such as HUP, SIGHUP or 1" },
      );
    }
    const client = await connect(invocation);
    return await forEachName(invocation, positionals, {
      act: (name) => signalDeployment(client, name, signal, instance),
    });
  },
};

function freezes(act: "pause" | "unpause"): CommandModule<typeof INSTANCE_OPTIONS> {
  return {
    async run(invocation) {
      const { values: { instance }, positionals } = invocation;
      const client = await connect(invocation);
      return await forEachName(invocation, positionals, {
        act: (name) => freezeDeployment(client, name, act, instance),
      });
    },
  };
}

export const pause = freezes("pause");
export const unpause = freezes("unpause");
