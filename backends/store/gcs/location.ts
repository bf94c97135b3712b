/** What a `gs://` value of SVC_STORAGE says (SPEC.md, "Storage"). */
import { readEndpoint, readLocation } from "../shared/location.ts";

export interface GcsLocation {
  bucket: string;
  /** Empty, or ends with "/": several stores may share a bucket. */
  prefix: string;
  /** Absent: the cloud's own. */
  endpoint?: string;
  shown: string;
}

const FORM = {
  scheme: "gs",
  noun: "bucket",
  name: /^[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]$/,
  parameters: ["endpoint"],
  help: "write gs://BUCKET, with endpoint as needed; credentials are the environment's",
};

/** Reads `gs://BUCKET[/PREFIX]?endpoint=`. Throws `config_invalid`. */
export function parseGcsLocation(value: string): GcsLocation {
  const read = readLocation(value, FORM);
  const endpoint = readEndpoint(read);
  return {
    bucket: read.name,
    prefix: read.prefix,
    ...(endpoint && { endpoint }),
    shown: read.shown,
  };
}
