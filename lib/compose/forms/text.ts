/** Text with a meaning of its own: durations, sizes and command lines. Errors tell what is wrong with it. */

const NANOSECONDS: Record<string, bigint> = {
  ns: 1n,
  us: 1000n,
  "µs": 1000n,
  "μs": 1000n,
  ms: 1_000_000n,
  s: 1_000_000_000n,
  m: 60_000_000_000n,
  h: 3_600_000_000_000n,
  d: 86_400_000_000_000n,
  w: 604_800_000_000_000n,
};
const PART = /(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h|d|w)/gy;
const MOST = 2n ** 63n - 1n;

function nanoseconds(text: string): bigint {
  const match = /^([+-]?)(.*)$/s.exec(text)!;
  if (match[2] === "0") return 0n;
  const parts = [...match[2].matchAll(PART)];
  if (parts.length === 0 || parts.map(([part]) => part).join("") !== match[2]) {
    throw new Error(`${JSON.stringify(text)} is no duration such as 300ms, 1m30s or 2h`);
  }
  let total = 0n;
  for (const [, number, unit] of parts) {
    const [whole, fraction = ""] = number.split(".");
    const scale = NANOSECONDS[unit];
    total += BigInt(whole || "0") * scale;
    const digits = fraction.slice(0, 18);
    if (digits !== "") total += BigInt(digits) * scale / 10n ** BigInt(digits.length);
  }
  if (total > MOST) throw new Error(`${text} is longer than 292 years`);
  return match[1] === "-" ? -total : total;
}

/** A number of nanoseconds in a larger unit, without zeros at its end. */
function decimal(value: bigint, unit: bigint): string {
  const fraction = (value % unit).toString().padStart(unit.toString().length - 1, "0").replace(
    /0+$/,
    "",
  );
  return `${value / unit}${fraction && `.${fraction}`}`;
}

/** Go's text of a duration that may have days and weeks: "1d" is "24h0m0s". */
export function goDuration(text: string): string {
  const total = nanoseconds(text);
  if (total === 0n) return "0s";
  const sign = total < 0n ? "-" : "";
  const value = total < 0n ? -total : total;
  if (value < 1000n) return `${sign}${value}ns`;
  if (value < 1_000_000n) return `${sign}${decimal(value, 1000n)}µs`;
  if (value < 1_000_000_000n) return `${sign}${decimal(value, 1_000_000n)}ms`;
  const hours = value / NANOSECONDS.h;
  const minutes = value % NANOSECONDS.h / NANOSECONDS.m;
  const seconds = decimal(value % NANOSECONDS.m, NANOSECONDS.s);
  const front = hours > 0n ? `${hours}h${minutes}m` : minutes > 0n ? `${minutes}m` : "";
  return `${sign}${front}${seconds}s`;
}

/** Bytes, as text, of "64m", "1.5gb", "512"; binary units. A number of its own may be negative. */
export function memorySize(text: string, quoted: boolean): string {
  if (!quoted) return text;
  const match = /^(\d+(?:\.\d+)?|\.\d+) ?([a-z]*)$/i.exec(text);
  const unit = match && /^(?:([kmgtp])?i?b?)$/i.exec(match[2]);
  if (!match || !unit) {
    throw new Error(`${JSON.stringify(text)} is no size such as 512, 64m or 1.5gb`);
  }
  const power = unit[1] ? "kmgtp".indexOf(unit[1].toLowerCase()) + 1 : 0;
  return String(Math.trunc(Number(match[1]) * 1024 ** power));
}

/** The words of a command line, by a shell's rules for quotes and backslashes, without its expansions. */
export function shellWords(line: string): string[] {
  const words: string[] = [];
  let word = "";
  let begun = false;
  let quote = "";
  for (let at = 0; at < line.length; at++) {
    const character = line[at];
    if (character === "\\" && quote !== "'") {
      if (at + 1 >= line.length) throw new Error("the command line ends with a backslash");
      word += line[++at];
      begun = true;
    } else if (quote !== "") {
      if (character === quote) quote = "";
      else word += character;
    } else if (character === '"' || character === "'") {
      quote = character;
      begun = true;
    } else if (/[ \t\r\n]/.test(character)) {
      if (begun) words.push(word);
      [word, begun] = ["", false];
    } else {
      word += character;
      begun = true;
    }
  }
  if (quote !== "") throw new Error("a quote of the command line is not closed");
  return begun ? [...words, word] : words;
}
