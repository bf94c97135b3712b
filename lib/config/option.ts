/**
 * One record per option defines the flag, the environment variable, the type, the default, `--help` and the
 * reference page. The server's table is server_options.ts; each command has a table in the same form.
 */
import { SvcError } from "../base/errors.ts";
import { parseBytes } from "../base/bytes.ts";
import { parseDuration } from "../base/duration.ts";

/** The types of option values. */
export interface Kinds {
  string: string;
  bool: boolean;
  int: number;
  /** Milliseconds. */
  duration: number;
  bytes: number;
  /** Comma-separated text or a repeated flag. */
  list: string[];
}

export interface Option<K extends keyof Kinds = keyof Kinds> {
  /** Key in the loaded record, camelCase. */
  key: string;
  kind: K;
  /** `--flag`, without the dashes; absent: environment only. */
  flag?: string;
  /** One-letter form, without the dash. */
  short?: string;
  /** A bool whose flag also exists as `--no-flag`. */
  negatable?: boolean;
  /** A list whose flag gives one whole item each time, commas and all (`--build-arg K=a,b`). */
  verbatim?: boolean;
  /** The first variable that is set counts. */
  env?: readonly string[];
  /** The variables are aliases: they are refused if they are set to different values. */
  agree?: true;
  /** Absent: an option that is not set is undefined. */
  default?: Kinds[K];
  /** The default in words, where it depends on the machine. */
  defaultText?: string;
  /** The value in `--help`: `--addr HOST:PORT`. */
  placeholder?: string;
  /** Allowed values of a string. */
  choices?: readonly string[];
  /** One sentence or a few. */
  help: string;
  /** Heading of the help and of the reference page. */
  section: string;
  /** The option's own check: throws `SvcError("config_invalid", …)` or returns the value. */
  check?: (value: Kinds[K], source: string) => Kinds[K];
  /** Logged at the start where the option is set and not off. */
  warning?: string;
  /**
   * Present where this build lacks the subsystem: any value but the default is parsed, checked and then refused
   * by name ("… is not in this build yet").
   */
  absent?: string;
}

const TRUE = new Set(["1", "true", "yes", "on"]);
const FALSE = new Set(["0", "false", "no", "off", ""]);

const PARSERS: { [K in keyof Kinds]: (text: string) => Kinds[K] } = {
  string: (text) => text,
  bool: (text) => {
    const word = text.toLowerCase();
    if (TRUE.has(word)) return true;
    if (FALSE.has(word)) return false;
    throw new SvcError("argument_invalid", `expected true or false, got ${JSON.stringify(text)}`);
  },
  int: (text) => {
    if (!/^-?\d+$/.test(text) || !Number.isSafeInteger(Number(text))) {
      throw new SvcError(
        "argument_invalid",
        `expected a whole number, got ${JSON.stringify(text)}`,
      );
    }
    return Number(text);
  },
  duration: parseDuration,
  bytes: parseBytes,
  list: (text) => text.split(",").map((item) => item.trim()).filter((item) => item !== ""),
};

/**
 * Text to value: by kind, choices and the option's own check. `source` ("--addr", "SVC_ADDR") stands in
 * the error.
 */
export function parseOption<K extends keyof Kinds>(
  option: Option<K>,
  text: string,
  source: string,
): Kinds[K] {
  let value: Kinds[K];
  try {
    value = PARSERS[option.kind](text);
  } catch (error) {
    throw new SvcError("config_invalid", `Cannot read ${source}: ${(error as Error).message}`, {
      cause: error,
    });
  }
  const words: unknown[] = Array.isArray(value) ? value : [value];
  if (option.choices && !words.every((word) => option.choices!.includes(word as string))) {
    throw new SvcError(
      "config_invalid",
      `Cannot read ${source}: ${JSON.stringify(text)} is not one of ${option.choices.join(", ")}`,
    );
  }
  return option.check ? option.check(value, source) : value;
}
