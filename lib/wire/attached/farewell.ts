/** How one end of an attached session tells the other why it breaks the session off. */
import { CATALOGUE, type ErrorCode, SvcError } from "../../base/errors.ts";

/** Close codes of the WebSocket: for a normal end, and for a failure. */
export const CLOSE = { DONE: 1000, FAILED: 4000 } as const;

/** Bytes of a close frame's reason (RFC 6455, section 5.5). */
const MAX_REASON = 123;
/** Characters of an error message, at most. */
const MAX_FAREWELL = 64 * 1024;

const encoder = new TextEncoder();

/** The beginning of the text, as much as a close frame's reason takes. */
export function shortReason(text: string): string {
  let length = 0;
  let short = "";
  for (const letter of text) {
    length += encoder.encode(letter).length;
    if (length > MAX_REASON) break;
    short += letter;
  }
  return short;
}

/** The text message with the error, sent before the close. */
export function writeFarewell({ code, message, help, detail }: SvcError): string {
  return JSON.stringify({ error: { code, detail: message, help, info: detail } });
}

/**
 * The error in such a message; undefined for any other message. An unknown code becomes a failure of the other
 * side.
 */
export function readFarewell(text: string): SvcError | undefined {
  let told: Record<string, unknown>;
  try {
    if (text.length > MAX_FAREWELL) return undefined;
    told = Object(Object(JSON.parse(text)).error);
  } catch {
    return undefined;
  }
  const { code, detail, help, info } = told;
  if (typeof code !== "string" || typeof detail !== "string") return undefined;
  const known = Object.hasOwn(CATALOGUE, code) ? code as ErrorCode : "upstream_failed";
  return new SvcError(known, detail, {
    ...(typeof help === "string" && { help }),
    ...(typeof info === "object" && info !== null && { detail: info as Record<string, unknown> }),
  });
}
