/** `svc compose create` and `scale`: services made, or made in another number. */
import { SvcError } from "../../base/errors.ts";
import { Watch } from "../../compose/watch.ts";
import type { Invocation } from "../command.ts";
import { bringUp, type BringUpValues } from "./bring_up.ts";
import type { ProjectInvocation } from "./open_project.ts";
import type { CREATE_OPTIONS, SCALE_OPTIONS } from "./options.ts";
import { openProgress } from "./progress.ts";
import { openSession } from "./session.ts";

async function bring(
  call: ProjectInvocation,
  names: readonly string[],
  { values, until }: { values: BringUpValues; until: "created" | "started" },
): Promise<number> {
  const session = await openSession(call, names);
  await using progress = openProgress(call);
  using watch = new Watch(session.client);
  const report = progress.step.bind(progress);
  const { signal } = call.io;
  await bringUp(call, { session, names, values, until, report, watch, signal });
  return 0;
}

export const create = {
  run(call: ProjectInvocation & Invocation<typeof CREATE_OPTIONS>): Promise<number> {
    const { values, positionals } = call;
    return bring(call, positionals, { values, until: "created" });
  },
};

export const scale = {
  run(call: ProjectInvocation & Invocation<typeof SCALE_OPTIONS>): Promise<number> {
    const { values: { noDeps }, positionals } = call;
    const names = positionals.map((text) => text.split("=")[0]);
    const wrong = positionals.find((text) => !/^.+=\d+$/.test(text));
    if (wrong !== undefined) {
      throw new SvcError("usage", `Cannot read ${JSON.stringify(wrong)}: expected SERVICE=NUMBER`);
    }
    const values = { noDeps, noRecreate: false, scale: positionals };
    return bring(call, names, { values, until: "started" });
  },
};
