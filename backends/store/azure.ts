/** Buckets (containers) of Azure-style blob storage. */
import { AzureBucket } from "./azure/bucket.ts";
import { parseAzureLocation } from "./azure/location.ts";
import type { BucketOptions } from "./shared/bucket.ts";

/** Throws `config_invalid` for what an `azblob://` value gets wrong. The caller closes it. */
export function azureBucket(value: string, options: BucketOptions = {}): AzureBucket {
  return new AzureBucket(parseAzureLocation(value), options);
}
