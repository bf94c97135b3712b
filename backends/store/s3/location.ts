/** What an `s3://` value of SVC_STORAGE says (SPEC.md, "Storage"). */
import { SvcError } from "../../../lib/base/errors.ts";
import { suggestion } from "../../../lib/base/nearest.ts";

export interface S3Location {
  bucket: string;
  /** Empty, or ends with "/": several stores may share a bucket. */
  prefix: string;
  /** Absent: the environment's, or the credential file's. */
  region?: string;
  /** Absent: the cloud's own for the region. */
  endpoint?: string;
  pathStyle: boolean;
  /** Absent: the standard credential chain. */
  credentials?: { accessKeyId: string; secretAccessKey: string };
  /** Without credentials: for messages and logs. */
  shown: string;
}

export const S3_PARAMETERS = ["region", "endpoint", "path_style", "access_key", "secret_key"];

const BUCKET = /^[A-Za-z0-9][A-Za-z0-9._-]{2,62}$/;
const PREFIX = /^(?:[A-Za-z0-9._=+-]+\/)*$/;

function readEndpoint(text: string, refuse: (why: string) => SvcError): string {
  const url = URL.parse(text.includes("://") ? text : `https://${text}`);
  if (!url || !["http:", "https:"].includes(url.protocol) || url.username !== "") {
    throw refuse("endpoint is not an http or https address without a login");
  }
  if (url.search !== "" || url.hash !== "") {
    throw refuse("endpoint has more than a host, a port and a path");
  }
  return url.href.replace(/\/$/, "");
}

function readSwitch(name: string, text: string, refuse: (why: string) => SvcError): boolean {
  if (["true", "1", "yes", "on"].includes(text.toLowerCase())) return true;
  if (["false", "0", "no", "off", ""].includes(text.toLowerCase())) return false;
  throw refuse(`${name} is ${JSON.stringify(text)}, expected true or false`);
}

/**
 * Reads `s3://BUCKET[/PREFIX]?region=&endpoint=&path_style=&access_key=&secret_key=`. Throws
 * `config_invalid`; no message carries a value of the credentials.
 */
export function parseS3Location(value: string): S3Location {
  const [before, ...rest] = value.split("?");
  const query = rest.join("?");
  const refuse = (why: string) =>
    new SvcError("config_invalid", `Cannot use storage ${before}: ${why}`, {
      help:
        "write s3://BUCKET?region=R, with endpoint, path_style, access_key and secret_key as needed",
    });
  const [bucket, ...folders] = before.replace(/^s3:\/\//i, "").split("/");
  if (!BUCKET.test(bucket)) {
    throw refuse(bucket === "" ? "no bucket is named" : "that is not a bucket's name");
  }
  const path = folders.filter((folder) => folder !== "").map((folder) => `${folder}/`).join("");
  if (!PREFIX.test(path) || /(^|\/)\.\.?\//.test(path)) {
    throw refuse("the prefix may have letters, digits and . _ = + - in its folders");
  }
  const given = new Map<string, string>();
  for (const [name, text] of new URLSearchParams(query)) {
    if (!S3_PARAMETERS.includes(name)) {
      throw refuse(`unknown parameter ${JSON.stringify(name)}${suggestion(name, S3_PARAMETERS)}`);
    }
    if (given.has(name)) throw refuse(`${name} is given twice`);
    given.set(name, text);
  }
  const [accessKeyId, secretAccessKey] = [given.get("access_key"), given.get("secret_key")];
  if (!accessKeyId !== !secretAccessKey) {
    throw refuse("access_key and secret_key belong together; one is missing");
  }
  const endpoint = given.get("endpoint");
  return {
    bucket,
    prefix: path,
    ...(given.get("region") && { region: given.get("region") }),
    ...(endpoint && { endpoint: readEndpoint(endpoint, refuse) }),
    pathStyle: readSwitch("path_style", given.get("path_style") ?? "", refuse),
    ...(accessKeyId && secretAccessKey && { credentials: { accessKeyId, secretAccessKey } }),
    shown: before,
  };
}
