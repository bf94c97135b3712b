/** Shared by the values of SVC_STORAGE that name a bucket (SPEC.md, "Storage"). */
import { SvcError } from "../../../lib/base/errors.ts";
import { suggestion } from "../../../lib/base/nearest.ts";

export interface LocationForm {
  /** "s3" of `s3://`. */
  scheme: string;
  /** "bucket" or "container". */
  noun: string;
  name: RegExp;
  parameters: readonly string[];
  /** The value's syntax, for errors. */
  help: string;
}

export interface BucketLocation {
  /** The bucket's name. */
  name: string;
  /** Empty, or ends with "/": several stores may share a bucket. */
  prefix: string;
  given: ReadonlyMap<string, string>;
  /** Without credentials: for messages and logs. */
  shown: string;
  /** An error that says what is wrong with the value. */
  refuse: (why: string) => SvcError;
}

const PREFIX = /^(?:[A-Za-z0-9._=+-]+\/)*$/;

/** Reads `SCHEME://NAME[/PREFIX]?…`. Throws `config_invalid`; no message carries a parameter's value. */
export function readLocation(value: string, form: LocationForm): BucketLocation {
  const [shown, ...rest] = value.split("?");
  const refuse = (why: string) =>
    new SvcError("config_invalid", `Cannot use storage ${shown}: ${why}`, { help: form.help });
  const [name, ...folders] = shown.slice(form.scheme.length + "://".length).split("/");
  if (!form.name.test(name)) {
    throw refuse(name === "" ? `no ${form.noun} is named` : `that is not a ${form.noun}'s name`);
  }
  const prefix = folders.filter((folder) => folder !== "").map((folder) => `${folder}/`).join("");
  if (!PREFIX.test(prefix) || /(^|\/)\.\.?\//.test(prefix)) {
    throw refuse("the prefix may have letters, digits and . _ = + - in its folders");
  }
  const given = new Map<string, string>();
  for (const [key, text] of new URLSearchParams(rest.join("?"))) {
    if (!form.parameters.includes(key)) {
      throw refuse(`unknown parameter ${JSON.stringify(key)}${suggestion(key, form.parameters)}`);
    }
    if (given.has(key)) throw refuse(`${key} is given twice`);
    given.set(key, text);
  }
  return { name, prefix, given, shown, refuse };
}

/** The parameter `endpoint`, without a slash at its end; undefined where it is not given. */
export function readEndpoint({ given, refuse }: BucketLocation): string | undefined {
  const text = given.get("endpoint");
  if (!text) return undefined;
  const url = URL.parse(text.includes("://") ? text : `https://${text}`);
  if (!url || !["http:", "https:"].includes(url.protocol) || url.username !== "") {
    throw refuse("endpoint is not an http or https address without a login");
  }
  if (url.search !== "" || url.hash !== "") {
    throw refuse("endpoint has more than a host, a port and a path");
  }
  return url.href.replace(/\/$/, "");
}

export function readSwitch(name: string, { given, refuse }: BucketLocation): boolean {
  const text = given.get(name) ?? "";
  if (["true", "1", "yes", "on"].includes(text.toLowerCase())) return true;
  if (["false", "0", "no", "off", ""].includes(text.toLowerCase())) return false;
  throw refuse(`${name} is ${JSON.stringify(text)}, expected true or false`);
}

/** The parameters `access_key` and `secret_key`. */
export function readKeys(
  { given, refuse }: BucketLocation,
): { accessKey: string; secretKey: string } | undefined {
  const [accessKey, secretKey] = [given.get("access_key"), given.get("secret_key")];
  if (!accessKey !== !secretKey) {
    throw refuse("access_key and secret_key belong together; one is missing");
  }
  return accessKey && secretKey ? { accessKey, secretKey } : undefined;
}
