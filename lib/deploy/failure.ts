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

/** A `deploy_failed`. `what` follows the instance's name: "exited with code 3"; it is told without a log too. */
export async function failure(failed: Failed, what: string): Promise<SvcError> {
  const { id, deployment } = failed;
  const { lines, log } = await lastLines(failed).then(
    (lines) => ({
      lines,
      log: lines.length > 0
        ? `its last log lines:\n${lines.map((line) => `  ${line}`).join("\n")}`
        : "it logged nothing",
    }),
    (error: Error) => {
      // The engine went away, and may have taken the instance with it.
      if (error instanceof SvcError && error.code === "unavailable") throw error;
      return { lines: [], log: `its log could not be read: ${error.message}` };
    },
  );
  return new SvcError(
    "deploy_failed",
    `Cannot deploy ${deployment}: instance ${id} ${what}; ${log}`,
    { detail: { instance: id, log: lines } },
  );
}

async function lastLines(failed: Failed): Promise<string[]> {
  const frames = await Array.fromAsync(failed.log({ tail: LAST_LINES }));
  return frames.flat().map(({ line }) => line.replace(/\r$/, ""));
}
