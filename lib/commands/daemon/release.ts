/** Tells the agent that deployments are gone, where there is an agent. */
import { type AgentClient, openAgent } from "../../agent/client.ts";
import { agentPlace } from "../../agent/place.ts";
import { placeOf } from "../../agent/protocol.ts";
import { hasRecords } from "../../agent/records.ts";
import { exists } from "../../base/fs.ts";
import type { Target } from "../../client/resolve.ts";
import type { Invocation } from "../command.ts";

/** The agent, if one runs or has left something behind. */
export async function agentThere(
  { env, io }: Pick<Invocation, "env" | "io">,
): Promise<AgentClient | undefined> {
  if (Deno.build.os === "windows") return undefined;
  const { socket, records } = await agentPlace(env);
  if (!await exists(socket) && !await hasRecords(records)) return undefined;
  return await openAgent({ env, signal: io.signal });
}

/** Ends what the agent holds of a deployment or a project. An agent that cannot be reached is a warning. */
export async function releaseHeld(
  invocation: Pick<Invocation, "env" | "io">,
  target: Target,
  what: { name?: string; project?: string },
): Promise<void> {
  try {
    const agent = await agentThere(invocation);
    await agent?.release({ place: placeOf(target), ...what });
  } catch (error) {
    invocation.io.signal.throwIfAborted();
    await invocation.io.stderr.write(`svc: warning: ${(error as Error).message}\n`);
  }
}
