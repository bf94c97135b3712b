/** Buckets of Google-style object storage. */
import { GcsBucket } from "./gcs/bucket.ts";
import { parseGcsLocation } from "./gcs/location.ts";
import type { BucketOptions } from "./shared/bucket.ts";

/** Throws `config_invalid` for what a `gs://` value gets wrong. The caller closes it. */
export function gcsBucket(value: string, options: BucketOptions = {}): GcsBucket {
  return new GcsBucket(parseGcsLocation(value), options);
}
