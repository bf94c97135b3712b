/**
 * What a scalar without quotes means. Compose files are read by rules between YAML 1.1 and 1.2: `yes` and `on`
 * are text, `0440` and `0o440` are octal, `1_000` is a number, and a date is a date. The printer uses the same
 * rules to know which text needs quotes.
 */
import { Float, type Scalar } from "./tree.ts";

const WORDS = new Map<string, Scalar>([
  ["", null],
  ["~", null],
  ...["null", "Null", "NULL"].map((word) => [word, null] as const),
  ...["true", "True", "TRUE"].map((word) => [word, true] as const),
  ...["false", "False", "FALSE"].map((word) => [word, false] as const),
  ...[".nan", ".NaN", ".NAN"].map((word) => [word, new Float(NaN)] as const),
  ...[".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"].map((word) =>
    [word, new Float(Infinity)] as const
  ),
  ...["-.inf", "-.Inf", "-.INF"].map((word) => [word, new Float(-Infinity)] as const),
]);

const INTEGER = /^[-+]?(0|[1-9][0-9]*)$/;
const BASES: [RegExp, number][] = [
  [/^([-+]?)0[bB]([01]+)$/, 2],
  [/^([-+]?)0[oO]?([0-7]+)$/, 8],
  [/^([-+]?)0[xX]([0-9a-fA-F]+)$/, 16],
];
const FLOAT = /^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$/;
const DATE = /^\d{4}-\d{1,2}-\d{1,2}([Tt]|\s+|$)/;
const TIME =
  /^\d{4}-\d{1,2}-\d{1,2}((?:[Tt]|\s+)\d{1,2}:\d{1,2}:\d{1,2}(\.\d*)?\s*(Z|[-+]\d{1,2}(:\d{2})?)?)?$/;

const LIMITS = { least: -(2n ** 63n), most: 2n ** 64n - 1n };

function integer(text: string): number | bigint | undefined {
  const plain = text.replaceAll("_", "");
  let value: bigint | undefined;
  if (INTEGER.test(plain)) value = BigInt(plain.replace(/^\+/, ""));
  for (const [form, base] of BASES) {
    const match = value === undefined && form.exec(plain);
    if (!match) continue;
    const digits = base === 2 ? `0b${match[2]}` : base === 8 ? `0o${match[2]}` : `0x${match[2]}`;
    value = match[1] === "-" ? -BigInt(digits) : BigInt(digits);
  }
  if (value === undefined || value < LIMITS.least || value > LIMITS.most) return undefined;
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

/** A date or a time without quotes, which is neither text nor a number. */
export const isTimestamp = (text: string): boolean => DATE.test(text) && TIME.test(text);

/** The value of a scalar without quotes and without a tag. */
export function resolveScalar(text: string): Scalar {
  const word = WORDS.get(text);
  if (word !== undefined) return word;
  if (!/^[-+.0-9]/.test(text)) return text;
  const whole = integer(text);
  if (whole !== undefined) return whole;
  const plain = text.replaceAll("_", "");
  return FLOAT.test(plain) ? new Float(Number(plain)) : text;
}

/** The shortest digits and the exponent of a float, in Go's form `%g`. */
function general(digits: string, least: number, most: number): string {
  const [mantissa, exponent] = digits.split("e");
  const power = Number(exponent);
  if (power >= least && power < most) return String(Number(digits));
  const sign = power < 0 ? "-" : "+";
  return `${mantissa}e${sign}${String(Math.abs(power)).padStart(2, "0")}`;
}

/** A float as docker compose prints it in YAML and joins it into text: 1e6 is "1e+06". */
export function formatFloat(value: number): string {
  if (Number.isNaN(value)) return ".nan";
  if (!Number.isFinite(value)) return value > 0 ? "+.inf" : "-.inf";
  return general(value.toExponential(), -4, 6);
}

/** The float with the fewest digits that is the same 32 bit float. */
export function shortest(value: number): number {
  const wanted = Math.fround(value);
  for (let digits = 1; digits < 10; digits++) {
    const candidate = Number(wanted.toPrecision(digits));
    if (Math.fround(candidate) === wanted) return candidate;
  }
  return wanted;
}

/** A scalar joined into text: `FOO: 1.50` is "1.5". */
export function textOf(value: Scalar): string {
  if (value === null) return "";
  return value instanceof Float ? formatFloat(value.value) : String(value);
}
