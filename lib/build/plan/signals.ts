/** Names of Linux signals, as STOPSIGNAL takes them. */

const NAMES = new Set(
  ("ABRT ALRM BUS CHLD CLD CONT FPE HUP ILL INT IO IOT KILL PIPE POLL PROF PWR QUIT SEGV STKFLT STOP " +
    "SYS TERM TRAP TSTP TTIN TTOU URG USR1 USR2 VTALRM WINCH XCPU XFSZ RTMIN RTMAX").split(" "),
);

/** Real-time signals count up from RTMIN and down from RTMAX. */
const REAL_TIME = /^(RTMIN\+([1-9]|1[0-5])|RTMAX-([1-9]|1[0-4]))$/;

/** A number, or a name with or without SIG, in any case. */
export function isSignal(text: string): boolean {
  if (/^\d{1,3}$/.test(text)) return Number(text) > 0;
  const name = text.toUpperCase().replace(/^SIG/, "");
  return NAMES.has(name) || REAL_TIME.test(name);
}
