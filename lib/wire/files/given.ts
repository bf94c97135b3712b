/**
 * Numbers that a mount gives to the files it makes, so that it need not wait for those that their machine gives: from
 * 2^63 on, where no file system has any.
 */
import { ERRNO, FileError } from "./stat.ts";

/** The first of them. */
export const GIVEN = 1n << 63n;
/** The epoch that the blocks of such a file begin with (lib/wire/blocks). */
export const FIRST_EPOCH = 1n;

export const isGiven = (id: bigint): boolean => id >= GIVEN;

/** The given numbers of one tree, by those of the files' machine. */
export class GivenNumbers {
  readonly #numbers = new Map<bigint, bigint>();
  readonly #used = new Set<bigint>();

  of(real: bigint): bigint {
    return this.#numbers.get(real) ?? real;
  }

  /** Throws EINVAL for a number that no new file may have. */
  check(number: bigint): void {
    if (isGiven(number) && !this.#used.has(number)) return;
    throw new FileError(ERRNO.EINVAL, "another file may have this number");
  }

  give(real: bigint, number: bigint): void {
    this.#numbers.set(real, number);
    this.#used.add(number);
  }
}
