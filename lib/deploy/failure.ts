/** The error of an instance that did not come up: what happened, and its last log lines. */
import type { LogFrame } from "../api/deployment.ts";
import { SvcError } from "../base/errors.ts";
import type { LogOptions } from "./backend.ts";

const LAST_LINES = 20;

export interface Failed {
  deployment: string;
  /** The instance's name. */
  id: string;
  log(options: LogOptions): AsyncGenerator<LogFrame[]>;
}

/** A `deploy_failed`. `what` follows the instance's name: "exited with code 3". */
export async function failure(failed: Failed, what: string): Promise<SvcError> {
  const { id, deployment } = failed;
  const frames = await Array.fromAsync(failed.log({ tail: LAST_LINES }));
  const lines = frames.flat().map(({ line }) => line.replace(/\r$/, ""));
  const log = lines.length > 0
    ? `; its last log lines:\n${lines.map((line) => `  ${line}`).join("\n")}`
    : "; it logged nothing";
  return new SvcError(
    "deploy_failed",
    `Cannot deploy ${deployment}: instance ${id} ${what}${log}`,
    { detail: { instance: id, log: lines } },
  );
}
