/** Answers to a client that no workload answers. */
import { SvcError } from "../base/errors.ts";
import { EndedEarly } from "./inlet.ts";
import { fromLatin1, HeadError } from "./head.ts";

const REASONS: Record<number, string> = {
  400: "Bad Request",
  404: "Not Found",
  405: "Method Not Allowed",
  408: "Request Timeout",
  417: "Expectation Failed",
  431: "Request Header Fields Too Large",
  502: "Bad Gateway",
  503: "Service Unavailable",
  504: "Gateway Timeout",
  505: "HTTP Version Not Supported",
};

export interface Refusal {
  status: number;
  /** A sentence without its full stop; it is public. */
  reason: string;
}

/** `close`: the connection takes no further request. */
export function renderRefusal(
  { status, reason }: Refusal,
  { method, close }: { method?: string; close: boolean },
): Uint8Array {
  const text = `svc: ${reason}\n`;
  return fromLatin1(
    `HTTP/1.1 ${status} ${REASONS[status]}\r\n` +
      "Content-Type: text/plain; charset=utf-8\r\n" +
      "X-Content-Type-Options: nosniff\r\n" +
      `Content-Length: ${text.length}\r\n` +
      (close ? "Connection: close\r\n" : "") +
      `Date: ${new Date().toUTCString()}\r\n\r\n` +
      (method === "HEAD" ? "" : text),
  );
}

/** The workload closed the connection without an answer. */
export class Unanswered extends Error {}

/** The time limit passed without an answer. */
export class TooLate extends Error {}

const IDLE = new Set(["not_found", "conflict", "unavailable"]);

function isTimeout(error: unknown): boolean {
  if (error instanceof TooLate) return true;
  if (error instanceof DOMException) return error.name === "TimeoutError";
  if (!(error instanceof Error)) return false;
  return error instanceof SvcError && error.code === "timeout" || isTimeout(error.cause);
}

/** The answer where no connection to the workload could be made. Internal addresses go only to the log. */
export function dialRefusal(error: unknown, deployment: string, port: number): Refusal {
  const cannot = `deployment ${deployment} cannot be reached: `;
  if (isTimeout(error)) {
    return { status: 504, reason: `${cannot}it did not take the connection in time` };
  }
  return error instanceof SvcError && IDLE.has(error.code)
    ? { status: 503, reason: `${cannot}it does not run` }
    : { status: 502, reason: `${cannot}nothing answers on its port ${port}` };
}

/** The answer where the workload was connected and did not answer. */
export function answerRefusal(error: unknown, deployment: string): Refusal {
  const who = `deployment ${deployment} `;
  if (isTimeout(error)) return { status: 504, reason: `${who}did not answer in time` };
  if (error instanceof HeadError) {
    return { status: 502, reason: `${who}gave an answer that is malformed: ${error.message}` };
  }
  const ended = error instanceof EndedEarly || error instanceof Unanswered;
  return {
    status: 502,
    reason: `${who}${ended ? "closed" : "broke"} the connection without an answer`,
  };
}
