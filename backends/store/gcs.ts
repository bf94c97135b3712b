/** Buckets of Google-style object storage. */
import { GcsBucket } from "./gcs/bucket.ts";
import { parseGcsLocation } from "./gcs/location.ts";
import type { BucketOptions } from "./shared/bucket.ts";

/** Throws `config_invalid` for a malformed `gs://` value. The caller closes the bucket. */
export function gcsBucket(value: string, options: BucketOptions = {}): GcsBucket {
  return new GcsBucket(parseGcsLocation(value), options);
}
