/** A credential, and the documents that its text forms have. */
import { SvcError } from "../base/errors.ts";

export interface Credential {
  values: Record<string, string>;
  /** Until when the values are good; absent: they do not end by themselves. */
  expiration?: Date;
}

/** How a source's text is read. */
export const TEXT_FORMATS = ["raw", "json", "env", "aws"] as const;
export type TextFormat = (typeof TEXT_FORMATS)[number];

/** `why` never has any of the text. */
const unreadable = (what: string, why: string) =>
  new SvcError("argument_invalid", `Cannot read ${what}: ${why}`, {
    help: `choose config.format among ${TEXT_FORMATS.join(", ")}`,
  });

function parseJson(text: string, what: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) {
      return value as Record<string, unknown>;
    }
  } catch {
    // Not told on: the parser's words quote the text.
  }
  throw unreadable(what, "it is no JSON object");
}

function texts(object: Record<string, unknown>, what: string): Record<string, string> {
  return Object.fromEntries(
    Object.entries(object).map(([key, value]) => {
      if (!["string", "number", "boolean"].includes(typeof value)) {
        throw unreadable(what, `its member ${JSON.stringify(key)} is no text`);
      }
      return [key, String(value)];
    }),
  );
}

function dateOf(value: unknown, what: string): { expiration?: Date } {
  if (value === undefined || value === null) return {};
  const expiration = new Date(String(value));
  if (Number.isNaN(expiration.getTime())) throw unreadable(what, "its expiration is no time");
  return { expiration };
}

/** The output of an AWS credential_process. */
function parseAws(text: string, what: string): Credential {
  const { AccessKeyId, SecretAccessKey, SessionToken, Expiration } = parseJson(text, what);
  if (typeof AccessKeyId !== "string" || typeof SecretAccessKey !== "string") {
    throw unreadable(what, "it has no AccessKeyId and SecretAccessKey");
  }
  const values: Record<string, string> = {
    accessKeyId: AccessKeyId,
    secretAccessKey: SecretAccessKey,
    ...(typeof SessionToken === "string" && { sessionToken: SessionToken }),
  };
  return { values, ...dateOf(Expiration, what) };
}

function parseVariables(text: string, what: string): Credential {
  const values: Record<string, string> = {};
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    if (/^\s*(#|$)/.test(line)) continue;
    const [, name, value] = /^\s*(?:export\s+)?([A-Za-z_]\w*)=(.*)$/.exec(line) ?? [];
    if (name === undefined) throw unreadable(what, `line ${index + 1} is no NAME=VALUE`);
    values[name] = /^(["']).*\1$/.test(value) ? value.slice(1, -1) : value;
  }
  return { values };
}

/**
 * - `raw`: the text without its last newline is the value `value`.
 * - `json`: an object of texts; or `{values, expiration}`.
 * - `env`: lines NAME=VALUE.
 * - `aws`: what an AWS credential_process prints.
 *
 * Throws `argument_invalid`; `what` names the text. No error has any of the text.
 */
export function parseText(text: string, format: TextFormat, what: string): Credential {
  switch (format) {
    case "raw":
      return { values: { value: text.replace(/\r?\n$/, "") } };
    case "env":
      return parseVariables(text, what);
    case "aws":
      return parseAws(text, what);
    case "json": {
      const object = parseJson(text, what);
      if (typeof object.values !== "object" || object.values === null) {
        return { values: texts(object, what) };
      }
      const values = texts(object.values as Record<string, unknown>, what);
      return { values, ...dateOf(object.expiration, what) };
    }
  }
}

/**
 * One value: the named one, or else the only one, or else the one that is called `value` or `token`. Throws
 * `spec_invalid`.
 */
export function oneValue(name: string, { values }: Credential, valueKey?: string): string {
  const keys = Object.keys(values);
  const key = valueKey ??
    (keys.length === 1 ? keys[0] : ["value", "token"].find((one) => one in values));
  if (key !== undefined && Object.hasOwn(values, key)) return values[key];
  throw new SvcError(
    "spec_invalid",
    `Cannot deliver credential ${name}: it has ${key ? `no value ${key}` : "several values"}`,
    { help: `set valueKey to one of ${keys.join(", ") || "its values (it has none)"}` },
  );
}

export interface AwsKeys {
  accessKeyId: string;
  secretAccessKey: string;
  sessionToken?: string;
}

/** Also under the names of AWS's variables. Throws `spec_invalid`. */
export function awsKeys(name: string, { values }: Credential): AwsKeys {
  const accessKeyId = values.accessKeyId ?? values.AWS_ACCESS_KEY_ID;
  const secretAccessKey = values.secretAccessKey ?? values.AWS_SECRET_ACCESS_KEY;
  const sessionToken = values.sessionToken ?? values.AWS_SESSION_TOKEN;
  if (accessKeyId !== undefined && secretAccessKey !== undefined) {
    return { accessKeyId, secretAccessKey, ...(sessionToken !== undefined && { sessionToken }) };
  }
  throw new SvcError(
    "spec_invalid",
    `Cannot deliver credential ${name} to an AWS SDK: it has no accessKeyId and secretAccessKey`,
    { help: "use a source with these values, such as backend: aws-sts" },
  );
}
