/** Signals of Linux by name and number, as `stopSignal` and STOPSIGNAL take them. */

/** By number, from 1 (signal(7), x86 and ARM). */
const ORDER =
  ("HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT CHLD " +
    "CONT STOP TSTP TTIN TTOU URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS").split(" ");

const NUMBERS: ReadonlyMap<string, number> = new Map([
  ...ORDER.map((name, index): [string, number] => [name, index + 1]),
  ["IOT", 6],
  ["CLD", 17],
  ["POLL", 29],
]);

/** First real-time signal for programs: the C library uses two itself. */
const FIRST_REAL_TIME = 34;
const LAST = 64;

export const SIGTERM = 15;
export const SIGKILL = 9;

/**
 * The number of a signal that is written as a number or a name: in any case, with or without SIG, real-time
 * ones as RTMIN+n or RTMAX-n. Undefined where there is no such signal.
 */
export function signalNumber(text: string): number | undefined {
  if (/^\d{1,3}$/.test(text)) {
    const number = Number(text);
    return number >= 1 && number <= LAST ? number : undefined;
  }
  const name = text.toUpperCase().replace(/^SIG/, "");
  const realTime = /^(?:RTMIN(?:\+(\d{1,2}))?|RTMAX(?:-(\d{1,2}))?)$/.exec(name);
  if (!realTime) return NUMBERS.get(name);
  const number = name.startsWith("RTMIN")
    ? FIRST_REAL_TIME + Number(realTime[1] ?? 0)
    : LAST - Number(realTime[2] ?? 0);
  return number >= FIRST_REAL_TIME && number <= LAST ? number : undefined;
}
