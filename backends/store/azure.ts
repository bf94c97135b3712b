/** Buckets (containers) of Azure-style blob storage. */
import { AzureBucket } from "./azure/bucket.ts";
import { parseAzureLocation } from "./azure/location.ts";
import type { BucketOptions } from "./shared/bucket.ts";

/** Throws `config_invalid` for a malformed `azblob://` value. The caller closes the bucket. */
export function azureBucket(value: string, options: BucketOptions = {}): AzureBucket {
  return new AzureBucket(parseAzureLocation(value), options);
}
