/** What an `s3://` value of SVC_STORAGE says (SPEC.md, "Storage"). */
import { readEndpoint, readKeys, readLocation, readSwitch } from "../shared/location.ts";

export interface S3Location {
  bucket: string;
  /** Empty, or ends with "/": several stores may share a bucket. */
  prefix: string;
  /** Absent: the region of the environment or the credential file. */
  region?: string;
  /** Absent: the cloud's own for the region. */
  endpoint?: string;
  pathStyle: boolean;
  /** Absent: the standard credential chain. */
  credentials?: { accessKeyId: string; secretAccessKey: string };
  /** Without credentials: for messages and logs. */
  shown: string;
}

const FORM = {
  scheme: "s3",
  noun: "bucket",
  name: /^[A-Za-z0-9][A-Za-z0-9._-]{2,62}$/,
  parameters: ["region", "endpoint", "path_style", "access_key", "secret_key"],
  help:
    "write s3://BUCKET?region=R, with endpoint, path_style, access_key and secret_key as needed",
};

/**
 * Reads `s3://BUCKET[/PREFIX]?region=&endpoint=&path_style=&access_key=&secret_key=`. Throws
 * `config_invalid`; no message carries a value of the credentials.
 */
export function parseS3Location(value: string): S3Location {
  const read = readLocation(value, FORM);
  const keys = readKeys(read);
  const endpoint = readEndpoint(read);
  const region = read.given.get("region");
  return {
    bucket: read.name,
    prefix: read.prefix,
    ...(region && { region }),
    ...(endpoint && { endpoint }),
    pathStyle: readSwitch("path_style", read),
    ...(keys && {
      credentials: { accessKeyId: keys.accessKey, secretAccessKey: keys.secretKey },
    }),
    shown: read.shown,
  };
}
