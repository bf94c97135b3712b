/** Buckets of S3, or of a service that speaks its protocol. */
import type { ObjectStore } from "../../lib/store/object_store.ts";
import { S3Bucket } from "./s3/bucket.ts";
import { parseS3Location } from "./s3/location.ts";
import type { BucketOptions } from "./shared/bucket.ts";
import { type BucketStoreOptions, openBucket } from "./shared/store.ts";

/** Throws `config_invalid` for a malformed `s3://` value. The caller closes the bucket. */
export function s3Bucket(value: string, options: BucketOptions = {}): S3Bucket {
  return new S3Bucket(parseS3Location(value), options);
}

/** The store of an `s3://` value. Throws as `s3Bucket` and `openBucket` do. */
export function openS3Store(
  value: string,
  options: BucketOptions & BucketStoreOptions = {},
): Promise<ObjectStore> {
  return openBucket(s3Bucket(value, options), options);
}
