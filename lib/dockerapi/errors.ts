/** Errors of the Docker API. Docker's clients show one line: where the message is docker's own, it is all of it. */
import { type ErrorCode, SvcError } from "../base/errors.ts";

/** True for an error of one of these codes. */
export const isCode = (error: unknown, ...codes: ErrorCode[]): error is SvcError =>
  error instanceof SvcError && codes.includes(error.code);

/** For `catch`: such an error is no failure. Throws others. */
export const unless = (...codes: ErrorCode[]) => (error: unknown): void => {
  if (!isCode(error, ...codes)) throw error;
};

/** In docker's own words. */
export const conflict = (message: string): SvcError =>
  new SvcError("conflict", message, { help: "" });

export const denied = (message: string): SvcError => new SvcError("denied", message, { help: "" });

export const invalid = (message: string, cause?: unknown): SvcError =>
  new SvcError("argument_invalid", message, { cause });

/** Of what is not done; `attempt`: "create the container". */
export const refusalOf = (attempt: string) => (what: string, why: string): SvcError =>
  invalid(`Cannot ${attempt}: ${what} cannot be honoured: ${why}`);

export const notFound = (message: string, cause?: unknown): SvcError =>
  new SvcError("not_found", message, { cause, help: "" });

export const unsupported = (message: string, help: string): SvcError =>
  new SvcError("unsupported", message, { help });
