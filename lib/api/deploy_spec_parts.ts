/** The parts that the schema of a deployment spec is made of: forms of texts, numbers, lists and maps. */
import { z } from "zod";
import { parseBytes } from "../base/bytes.ts";
import { isCapability } from "../base/capabilities.ts";
import { parseDuration } from "../base/duration.ts";
import { suggestion } from "../base/nearest.ts";
import { expandList, expandMap, Issue, shellWords } from "./deploy_spec_shorthand.ts";
import { HOST_NAME, isAddress, isReservedName, parseTmpfs } from "./deploy_spec_text.ts";

/** An object that refuses unknown members and suggests the nearest known name. */
export function record<S extends z.ZodRawShape>(shape: S) {
  return z.strictObject(shape, {
    error: (issue) => {
      if (issue.code !== "unrecognized_keys") return undefined;
      return issue.keys.map((key: string) =>
        `unknown field ${JSON.stringify(key)}${suggestion(key, Object.keys(shape))}`
      ).join("; ");
    },
  });
}

/** Expands shorthand, then applies the schema; a malformed shorthand is reported at the field's path. */
export function expanded<T extends z.ZodType>(expand: (value: unknown) => unknown, schema: T) {
  return z.preprocess((value, context) => {
    try {
      return value === undefined ? value : expand(value);
    } catch (error) {
      if (!(error instanceof Issue)) throw error;
      context.addIssue({ code: "custom", message: error.message });
      return z.NEVER;
    }
  }, schema);
}

// A title is the word for a form in the reference page and in the API's description.

/** Text that only people and programs read: it may have several lines. */
export const prose = z.string("expected text").refine(
  (value) => !value.includes("\0"),
  "expected a text without NUL characters",
);
export const text = z.string("expected text").regex(
  /^\P{Cc}*$/u,
  "expected one line, without control characters",
);
export const bool = z.boolean("expected true or false");
export const words = z.array(text, "expected a list of texts");
export const list = expanded(expandList, words);

export function listOf(form: RegExp, message: string) {
  return expanded(expandList, z.array(text.regex(form, message), "expected a list of texts"));
}

/** A map whose keys have a form. */
export function mapOf<V extends z.ZodType>(
  form: RegExp,
  message: string,
  value: V,
  expand = expandMap("=", "NAME=VALUE"),
) {
  return expanded(
    expand,
    z.record(z.string(), value, "expected a map").superRefine((map, context) => {
      for (const key of Object.keys(map)) {
        if (!form.test(key)) context.addIssue({ code: "custom", path: [key], message });
      }
    }),
  );
}

const key = /^\P{Cc}+$/u;
const keyMessage = "expected a name of one line";
export const map = mapOf(key, keyMessage, text);
export const proseMap = mapOf(key, keyMessage, prose);

export function int(least: number, most: number = Number.MAX_SAFE_INTEGER) {
  const message = most === Number.MAX_SAFE_INTEGER
    ? `expected a whole number from ${least}`
    : `expected ${least}..${most}`;
  return z.int(message).min(least, message).max(most, message);
}

export const nonEmpty = text.min(1, "expected a text that is not empty");
export const absolute = text.regex(/^\//, "expected an absolute path").meta({ title: "path" });
export const port = int(1, 65535);

export const address = text.refine(isAddress, "expected an IP address").meta({
  title: "IP address",
});

/** A Go duration, kept as text. */
export const duration = z.preprocess((value) => value === 0 ? "0s" : value, text).refine(
  (value) => {
    try {
      return parseDuration(value) >= 0;
    } catch {
      return false;
    }
  },
  "expected a duration such as 300ms, 10s or 1m30s",
).meta({ title: "duration" });

const sizeMessage = "expected bytes or a size such as 64Mi";
export const size = expanded((value) => {
  if (typeof value !== "string") return value;
  try {
    return parseBytes(value);
  } catch {
    throw new Issue(sizeMessage);
  }
}, z.int(sizeMessage).min(0, sizeMessage)).meta({ title: "size" });

const cpuMessage = "expected a number of processors such as 0.5, 2 or 500m";
export const cpus = expanded((value) => {
  if (typeof value !== "string") return value;
  const match = /^(\d+(?:\.\d+)?)(m?)$/.exec(value);
  if (!match) throw new Issue(cpuMessage);
  return Number(match[1]) / (match[2] ? 1000 : 1);
}, z.number(cpuMessage).positive(cpuMessage)).meta({ title: "processors" });

/** A command line: a list, or one text split as a shell splits it. */
export const command = expanded(
  (value) => typeof value === "string" ? shellWords(value) : value,
  z.array(prose, "expected a list of texts"),
);

export const label = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;
export const resource = text.regex(
  /^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}$/,
  "expected at most 128 letters, digits, '_', '.' and '-'",
);
export const hostName = "expected a host name";
export const alias = text.regex(HOST_NAME, hostName).refine(
  (value) => !isReservedName(value),
  "this name is reserved",
);
export const capabilities = expanded(
  expandList,
  z.array(
    text.refine(isCapability, {
      error: ({ input }) => `expected a capability such as NET_ADMIN, got ${JSON.stringify(input)}`,
    }),
    "expected a list of capabilities",
  ),
);

/** Reports the parser's message. */
export const tmpfs = text.superRefine((value, context) => {
  try {
    parseTmpfs(value);
  } catch (error) {
    context.addIssue({ code: "custom", message: (error as Error).message });
  }
});
