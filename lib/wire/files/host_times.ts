/** Times of files of this machine, to the nanosecond. */
import { callHere, cbytes } from "../../sys/system_call.ts";
import type { FileTime } from "./stat.ts";

const EMPTY = cbytes("");
const AT_EMPTY_PATH = 0x1000;
const UTIME_NOW = 0x3fffffff;
const UTIME_OMIT = 0x3ffffffe;

/** `fd`: of the file itself, a link too. What is undefined stays. */
export function setHostTimes(
  fd: number,
  atime: FileTime | "now" | undefined,
  mtime: FileTime | "now" | undefined,
): void {
  const both = [atime, mtime].flatMap((time) =>
    time === undefined ? [0, UTIME_OMIT] : time === "now" ? [0, UTIME_NOW] : [time.s, time.ns]
  );
  const words = new BigInt64Array(both.map(BigInt));
  callHere("utimensat", fd, EMPTY, new Uint8Array(words.buffer), AT_EMPTY_PATH);
}
