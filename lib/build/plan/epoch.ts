import { SvcError } from "../../base/errors.ts";

/** Reads SOURCE_DATE_EPOCH: seconds since 1970. Throws `argument_invalid`. */
export function parseEpoch(text: string): number {
  if (!/^\d{1,11}$/.test(text)) {
    throw new SvcError(
      "argument_invalid",
      `Cannot use SOURCE_DATE_EPOCH=${text}: expected whole seconds since 1970`,
    );
  }
  return Number(text);
}
