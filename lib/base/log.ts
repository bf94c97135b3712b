/** Structured logs to standard error: text on a terminal, one JSON object a line elsewhere. */

export const LOG_LEVELS = ["debug", "info", "warn", "error"] as const;
export type LogLevel = typeof LOG_LEVELS[number];

/** Values of a log line. Never put a secret in one. */
export type LogFields = Record<string, unknown>;

export interface Logger {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
  /** A logger that adds these fields to each line. */
  with(fields: LogFields): Logger;
  enabled(level: LogLevel): boolean;
}

export interface LoggerOptions {
  level: LogLevel;
  format: "text" | "json";
  /** Takes one line without its newline. */
  write: (line: string) => void;
  now?: () => Date;
}

/** Terminal colours: gray, cyan, yellow, red. */
const COLOURS = { debug: 90, info: 36, warn: 33, error: 31 } as const;

function render(value: unknown): unknown {
  if (value instanceof Error) return value.message;
  if (typeof value === "bigint") return Number(value);
  return value;
}

let lastMs = NaN;
let lastIso = "";

/** Time as text; lines of the same millisecond share it. */
function isoOf(date: Date): string {
  const ms = date.getTime();
  if (ms !== lastMs) [lastMs, lastIso] = [ms, date.toISOString()];
  return lastIso;
}

// deno-lint-ignore no-control-regex
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/g;

/** Escapes control characters, so that a client's text cannot control the terminal of the log's reader. */
function visible(text: string): string {
  return text.replace(CONTROL, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

function textValue(value: unknown): string {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  const plain = typeof value === "string" && !/[\s"=]/.test(text) && text !== "" &&
    text.search(CONTROL) < 0;
  return plain ? text : visible(JSON.stringify(value));
}

export function createLogger(options: LoggerOptions, base: LogFields = {}): Logger {
  const least = LOG_LEVELS.indexOf(options.level);
  const now = options.now ?? (() => new Date());
  const line = (level: LogLevel, message: string, fields: LogFields = {}) => {
    if (LOG_LEVELS.indexOf(level) < least) return;
    const time = isoOf(now());
    const all: LogFields = options.format === "json"
      ? { time, level, msg: message, ...base, ...fields }
      : { ...base, ...fields };
    for (const key in all) {
      const value = all[key];
      // Most values are strings and numbers, and most lines belong to a busy server's access log.
      if (typeof value !== "string" && typeof value !== "number") all[key] = render(value);
    }
    if (options.format === "json") return options.write(JSON.stringify(all));
    const pairs = Object.entries(all)
      .filter(([, value]) => value !== undefined)
      .map(([key, value]) => ` ${key}=${textValue(value)}`).join("");
    const mark = `\x1b[${COLOURS[level]}m${level.toUpperCase().padEnd(5)}\x1b[39m`;
    options.write(`${time.slice(11, 23)} ${mark} ${message}${pairs}`);
  };
  return {
    debug: (m, f) => line("debug", m, f),
    info: (m, f) => line("info", m, f),
    warn: (m, f) => line("warn", m, f),
    error: (m, f) => line("error", m, f),
    with: (fields) => createLogger(options, { ...base, ...fields }),
    enabled: (level) => LOG_LEVELS.indexOf(level) >= least,
  };
}

/** A logger that writes nothing; for tests and library use. */
export const silent: Logger = createLogger({ level: "error", format: "json", write: () => {} });

/** Log lines leave the process in batches, one write per turn of the event loop. */
export function batchedLines(
  out: { writeSync(bytes: Uint8Array): number },
): { write: (line: string) => void; flush: () => void } {
  const encoder = new TextEncoder();
  let pending = "";
  const flush = () => {
    const bytes = encoder.encode(pending);
    pending = "";
    try {
      for (let at = 0; at < bytes.length;) at += out.writeSync(bytes.subarray(at));
    } catch {
      // Nobody reads the log; the server continues.
    }
  };
  return {
    write(line) {
      if (pending === "") setTimeout(flush, 0);
      pending += line + "\n";
    },
    flush,
  };
}
