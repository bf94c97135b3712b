/** Starts the agent as a process that outlives the command, its terminal and its folder. */
import { ownCommand } from "../base/own_command.ts";
import { startProgram } from "../base/process.ts";
import { makeOwnFolder } from "../base/runtime_folder.ts";
import type { AgentPlace } from "./place.ts";

/** Variables that are about one command, and not for what comes later. */
const OF_A_COMMAND = /^(SVC_|COMPOSE_|PWD$|OLDPWD$)/;

/** Several that start at once are no harm: all but one see the lock and end. */
export async function startAgent(
  { folder }: AgentPlace,
  env: Readonly<Record<string, string | undefined>>,
): Promise<void> {
  const [command, ...args] = await ownCommand(["daemon", "run"]);
  const kept = Object.entries(env).filter((pair): pair is [string, string] =>
    pair[1] !== undefined && !OF_A_COMMAND.test(pair[0])
  );
  await makeOwnFolder(folder);
  startProgram(command, {
    args,
    clearEnv: true,
    env: Object.fromEntries(kept),
    cwd: "/",
    detached: true,
    ...{ stdin: "null", stdout: "null", stderr: "null" },
  }).unref();
}
