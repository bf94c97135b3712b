/** The memory of this process. */
import { libcTrimming } from "./libc.ts";

/**
 * A function that gives freed memory back to the system (malloc_trim(3)), in about a millisecond: glibc keeps what
 * lies below a piece in use. The engine gives back JavaScript's heap by itself. Undefined on other systems.
 */
export function memoryTrimmer(): (() => void) | undefined {
  try {
    const { malloc_trim } = libcTrimming();
    return () => void malloc_trim(0n);
  } catch {
    return undefined;
  }
}
