/** `svc daemon run`: the agent itself. */
import { agentPlace, ownBuild } from "../../agent/place.ts";
import { openLog } from "../../agent/log.ts";
import { runAgent } from "../../agent/server.ts";
import { makeOwnFolder } from "../../base/runtime_folder.ts";
import type { Invocation } from "../command.ts";
import { HOLDERS } from "./holders.ts";

/** Milliseconds that an agent without anything to hold waits for the next command. */
const IDLE_MS = 30_000;

export async function run({ env, io }: Invocation): Promise<number> {
  // Read first: the file may be replaced while this starts.
  const build = await ownBuild();
  const place = await agentPlace(env);
  await makeOwnFolder(place.folder);
  using log = await openLog(place.log);
  log("the agent starts");
  const ran = await runAgent({
    ...{ place, build, log, holders: HOLDERS, idleMs: IDLE_MS, signal: io.signal },
  });
  log(ran ? "the agent ends" : "another agent runs already");
  return 0;
}
