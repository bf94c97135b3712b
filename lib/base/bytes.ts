/** Byte sizes: plain numbers or with a unit, as docker and kubectl write them. */
import { SvcError } from "./errors.ts";

const UNITS: Record<string, number> = { "": 1, b: 1 };
for (const [index, letter] of ["k", "m", "g", "t", "p"].entries()) {
  UNITS[letter] = UNITS[`${letter}i`] = UNITS[`${letter}ib`] = 1024 ** (index + 1);
  UNITS[`${letter}b`] = 1024 ** (index + 1);
}

/**
 * Parses "262144", "64k", "64Mi" or "1.5GiB" into bytes. A unit without "i" is binary too, as docker
 * has it. Throws `argument_invalid`.
 */
export function parseBytes(text: string): number {
  const match = /^(\d+(?:\.\d+)?)\s*([a-z]*)$/i.exec(text.trim());
  const unit = match ? UNITS[match[2].toLowerCase()] : undefined;
  const value = match && unit ? Math.round(Number(match[1]) * unit) : NaN;
  if (!Number.isSafeInteger(value)) {
    throw new SvcError(
      "argument_invalid",
      `Cannot read size ${
        JSON.stringify(text)
      }: expected bytes or a unit, such as 262144, 64k or 64Mi`,
    );
  }
  return value;
}

/** Bytes for a person: 1536 is "1.5 KiB". */
export function formatBytes(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  const power = Math.min(5, Math.floor(Math.log2(bytes) / 10));
  const value = bytes / 1024 ** power;
  return `${value >= 100 ? value.toFixed(0) : value.toFixed(1)} ${" KMGTP"[power]}iB`;
}
