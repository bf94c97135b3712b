/** Frames of a log, from the bytes that were printed. */
import type { LogFrame } from "../api/deployment.ts";

/** RFC 3339 in UTC with nine digits: the order of texts is then the order of times. */
export function normalTime(text: string): string {
  const match = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)$/.exec(text);
  if (!match) return text;
  const [, seconds, fraction = "", zone] = match;
  const utc = zone === "Z" || zone === "+00:00"
    ? seconds
    : new Date(`${seconds}${zone}`).toISOString().slice(0, 19);
  return `${utc}.${fraction.padEnd(9, "0")}Z`;
}

const decoder = new TextDecoder();
/** Throws for text that is not UTF-8, and keeps a byte order mark. */
const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export interface PrintedLine extends Pick<LogFrame, "time" | "instance" | "stream"> {
  /** Without the newline. */
  bytes: Uint8Array;
  /** False: no newline follows. */
  whole: boolean;
}

export function logFrame({ time, instance, stream, bytes, whole }: PrintedLine): LogFrame {
  const frame: LogFrame = {
    time: normalTime(time),
    instance,
    stream,
    line: "",
    ...(!whole && { partial: true }),
  };
  try {
    return { ...frame, line: strict.decode(bytes) };
  } catch {
    return { ...frame, line: decoder.decode(bytes), base64: bytes.toBase64() };
  }
}
