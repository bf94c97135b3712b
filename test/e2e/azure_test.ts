/** The store in a container of Azure-style storage: Microsoft's emulator (test/peers/azure.ts). */
import { azureBucket } from "../../backends/store/azure.ts";
import { openBucket } from "../../backends/store/shared/store.ts";
import { bucketStoreTests } from "../contract/bucket_store.ts";
import { type AzureServer, startAzure } from "../peers/azure.ts";

let peer: AzureServer | undefined;
Deno.test.beforeAll(async () => {
  peer = await startAzure();
});
Deno.test.afterAll(async () => {
  await peer?.[Symbol.asyncDispose]();
});

bucketStoreTests("azure", {
  location: () => peer!.location(),
  bucket: (location) => azureBucket(location),
  lacks: ["copy a part from another object"],
  open: (location) => openBucket(azureBucket(location)),
});
