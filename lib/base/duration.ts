/** Go durations ("1m30s"), the format of every duration in flags, variables and specs. */
import { SvcError } from "./errors.ts";

const UNITS: Record<string, number> = {
  ns: 1e-6,
  us: 1e-3,
  "µs": 1e-3,
  "μs": 1e-3,
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
};

/** Parses a Go duration into milliseconds (fractions kept). Throws `argument_invalid`. */
export function parseDuration(text: string): number {
  const bad = () =>
    new SvcError(
      "argument_invalid",
      `Cannot read duration ${
        JSON.stringify(text)
      }: expected numbers with units such as 300ms, 1.5h or 2h45m`,
    );
  const match = /^([+-]?)(.+)$/.exec(text);
  if (!match) throw bad();
  if (match[2] === "0") return 0;
  const parts = [...match[2].matchAll(/(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)/gy)];
  if (parts.length === 0 || parts.map((p) => p[0]).join("") !== match[2]) throw bad();
  const total = parts.reduce((sum, [, number, unit]) => sum + Number(number) * UNITS[unit], 0);
  return match[1] === "-" ? -total : total;
}

/** Milliseconds as a Go duration: 90000 is "1m30s", 0 is "0s". */
export function formatDuration(ms: number): string {
  if (ms === 0) return "0s";
  if (ms < 0) return `-${formatDuration(-ms)}`;
  if (ms < 1000) return `${Number(ms.toFixed(3))}ms`;
  const h = Math.floor(ms / 3_600_000);
  const m = Math.floor(ms % 3_600_000 / 60_000);
  const s = Number((ms % 60_000 / 1000).toFixed(3));
  return `${h ? `${h}h` : ""}${h || m ? `${m}m` : ""}${s}s`;
}
