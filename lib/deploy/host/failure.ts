/** The error of an instance that did not come up: what happened, and its last log lines. */
import { SvcError } from "../../base/errors.ts";
import type { Instance } from "./instance.ts";

const LAST_LINES = 20;

/** A `deploy_failed`. `what` follows the instance's name: "exited with code 3". */
export async function failure(
  instance: Pick<Instance, "id" | "deployment" | "log">,
  what: string,
): Promise<SvcError> {
  const { id, deployment } = instance;
  const frames = await Array.fromAsync(instance.log({ tail: LAST_LINES }));
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
