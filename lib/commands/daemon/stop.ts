/** `svc daemon stop`: ends what the agent holds, and the agent. */
import { openAgent } from "../../agent/client.ts";
import type { Invocation } from "../command.ts";

export async function run({ env, io, values }: Invocation): Promise<number> {
  const agent = await openAgent({ env, signal: io.signal });
  const ended = await agent.stop();
  if (values.output === "json") {
    const value = { stopped: ended !== undefined, ended: ended ?? [] };
    await io.stdout.write(JSON.stringify(value) + "\n");
    return 0;
  }
  for (const { kind, name } of ended ?? []) await io.stdout.write(`${kind} ${name} is ended\n`);
  await io.stdout.write(ended ? "The agent is stopped.\n" : "The agent was not running.\n");
  return 0;
}
