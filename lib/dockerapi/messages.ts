/** Progress as docker's API streams it: one JSON object a line, a failure as the last one. */
import { asSvcError } from "../base/errors.ts";
import { messageOf } from "./call.ts";
import type { Answer } from "./request.ts";

export interface Progress {
  stream?: string;
  status?: string;
  id?: string;
  progressDetail?: { current?: number; total?: number };
  /** For people. */
  progress?: string;
  aux?: unknown;
  error?: string;
  errorDetail?: { code?: number; message: string };
}

export type Tell = (message: Progress) => void;

/** Messages that wait for a client that does not read: older progress of the same thing is dropped first. */
const MAX_WAITING = 1000;

/** A failure as the last message of a stream. */
export function failureMessage(error: unknown): Progress {
  const { message } = messageOf(error);
  return { errorDetail: { message }, error: message };
}

/**
 * Runs `work` and streams what it tells. What fails before it has told anything is an answer with a status of its
 * own.
 */
export async function streamed(
  work: (tell: Tell) => Promise<void>,
  signal: AbortSignal,
): Promise<Answer> {
  const waiting: Progress[] = [];
  let wake = Promise.withResolvers<void>();
  let over = false;
  const tell: Tell = (message) => {
    if (waiting.length >= MAX_WAITING) {
      const old = waiting.findIndex(({ progressDetail }) => progressDetail !== undefined);
      if (old >= 0) waiting.splice(old, 1);
    }
    waiting.push(message);
    wake.resolve();
  };
  let failed: { error: unknown } | undefined;
  const working = work(tell).catch((error) => void (failed = { error })).finally(() => {
    over = true;
    wake.resolve();
  });
  const gone = () => wake.resolve();
  signal.addEventListener("abort", gone, { once: true });
  await wake.promise;
  if (failed && waiting.length === 0) throw asSvcError(failed.error);
  async function* lines() {
    try {
      for (;;) {
        wake = Promise.withResolvers<void>();
        for (let next; (next = waiting.shift());) yield `${JSON.stringify(next)}\r\n`;
        if (over || signal.aborted) break;
        await wake.promise;
      }
      await working;
      if (failed && !signal.aborted) yield `${JSON.stringify(failureMessage(failed.error))}\r\n`;
    } finally {
      signal.removeEventListener("abort", gone);
    }
  }
  return { headers: { "content-type": "application/json" }, stream: lines() };
}
