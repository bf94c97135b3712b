/** The error of an instance that did not come up: what happened, and the last it said. */
import { SvcError } from "../../../lib/base/errors.ts";
import { readLog } from "../../../lib/deploy/log_file.ts";
import type { Instance } from "./instance.ts";

const LAST_LINES = 20;

/** A `deploy_failed`; `what` follows the instance's name: "exited with code 3". */
export async function failure(
  { id, deployment, logPath }: Pick<Instance, "id" | "deployment" | "logPath">,
  what: string,
): Promise<SvcError> {
  const frames = await Array.fromAsync(readLog(logPath, id, { tail: LAST_LINES }));
  const lines = frames.map(({ line }) => line.replace(/\r$/, ""));
  const log = lines.length > 0
    ? `; its last log lines:\n${lines.map((line) => `  ${line}`).join("\n")}`
    : "; it logged nothing";
  return new SvcError(
    "deploy_failed",
    `Cannot deploy ${deployment}: instance ${id} ${what}${log}`,
    { detail: { instance: id, log: lines } },
  );
}
