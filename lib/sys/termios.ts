/** The mode of a terminal: ioctl(2) on `struct termios` as the kernel has it, not as a C library wraps it. */
import { SystemError } from "./errno.ts";
import { errno, isForeignErrno, libc } from "./libc.ts";

const TCGETS = 0x5401n;
const TCSETS = 0x5402n;

/** Four words of flags, a byte for the line discipline, nineteen control characters. */
const SIZE = 36;
const CONTROLS = 17;
const VTIME = 5;
const VMIN = 6;

/** IGNBRK BRKINT PARMRK ISTRIP INLCR IGNCR ICRNL IXON */
const INPUT = 0x5eb;
/** OPOST */
const OUTPUT = 0x1;
/** CSIZE PARENB, and CS8 */
const CONTROL = 0x130;
const CS8 = 0x30;
/** ISIG ICANON ECHO ECHONL IEXTEN */
const LOCAL = 0x804b;

/** One ioctl(2) with memory that does not move as its argument. */
export function ioctl(fd: number, request: bigint, memory: Uint8Array<ArrayBuffer>): void {
  const place = Deno.UnsafePointer.value(Deno.UnsafePointer.of(memory));
  while (libc().ioctl(fd, request, place) < 0) {
    const code = errno[0];
    if (!isForeignErrno(code)) throw new SystemError(code, "ioctl");
  }
}

/**
 * Sets raw mode, as cfmakeraw(3) does: every key comes as the bytes it sends, and output is not changed.
 * `keys`: changes only the keys. Returns the function that restores the old mode. Throws ENOTTY where `fd` is
 * no terminal.
 */
export function rawMode(fd: number, what: "all" | "keys" = "all"): () => void {
  const before = new Uint8Array(new ArrayBuffer(SIZE));
  ioctl(fd, TCGETS, before);
  const raw = new Uint8Array(new ArrayBuffer(SIZE));
  raw.set(before);
  const flags = new Uint32Array(raw.buffer, 0, 4);
  flags[0] &= ~INPUT;
  if (what === "all") flags[1] &= ~OUTPUT;
  flags[2] = flags[2] & ~CONTROL | CS8;
  flags[3] &= ~LOCAL;
  raw[CONTROLS + VTIME] = 0;
  raw[CONTROLS + VMIN] = 1;
  ioctl(fd, TCSETS, raw);
  return () => ioctl(fd, TCSETS, before);
}
