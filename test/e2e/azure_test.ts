/** The store in a container of Azure-style storage: Microsoft's emulator (test/peers/azure.ts). */
import { azureBucket } from "../../backends/store/azure.ts";
import { openBucket } from "../../backends/store/shared/store.ts";
import { bucketStoreTests } from "../contract/bucket_store.ts";
import { type AzureServer, startAzure, withoutAzure } from "../peers/azure.ts";

const ignore = await withoutAzure();
let peer: AzureServer | undefined;
Deno.test.beforeAll(async () => {
  if (!ignore) peer = await startAzure();
});
Deno.test.afterAll(async () => {
  await peer?.[Symbol.asyncDispose]();
});

if (!ignore) {
  bucketStoreTests("azure", {
    location: () => peer!.location(),
    bucket: (location) => azureBucket(location),
    open: (location) => openBucket(azureBucket(location)),
    // The emulator answers 501; backends/store/bounded_test.ts looks at the request.
    lacks: ["copy a part from another object"],
  });
}
