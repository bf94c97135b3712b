/** RFC 9457 problem details: the error body of everything under `/.svc/v1`. */
import { type ErrorCode, SvcError } from "../base/errors.ts";

export const PROBLEM_TYPE = "application/problem+json";

export interface Problem {
  /** Short name of the kind of error: the catalogue's code in words. */
  title: string;
  status: number;
  /** What was attempted, and what stands in the way. */
  detail: string;
  code: ErrorCode;
  /** What to do. */
  help: string;
  /** Machine-readable members of this kind of error. */
  info?: Record<string, unknown>;
}

export function toProblem(error: SvcError): Problem {
  return {
    title: error.code.replaceAll("_", " "),
    status: error.status,
    detail: error.message,
    code: error.code,
    help: error.help,
    ...(error.detail && { info: error.detail }),
  };
}

/** The server's error, for the client to throw. */
export function fromProblem(problem: Problem): SvcError {
  return new SvcError(problem.code, problem.detail, { help: problem.help, detail: problem.info });
}
