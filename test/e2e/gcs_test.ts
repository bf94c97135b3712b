/** The store in a bucket of Google-style storage: a stand-in of its JSON API (test/peers/gcs.ts). */
import { gcsBucket } from "../../backends/store/gcs.ts";
import { openBucket } from "../../backends/store/shared/store.ts";
import { bucketStoreTests } from "../contract/bucket_store.ts";
import { type GcsServer, startGcs } from "../peers/gcs.ts";

let peer: GcsServer | undefined;
Deno.test.beforeAll(async () => {
  peer = await startGcs();
  // The SDK looks there itself.
  Deno.env.set("GOOGLE_APPLICATION_CREDENTIALS", peer.credentials);
});
Deno.test.afterAll(async () => {
  Deno.env.delete("GOOGLE_APPLICATION_CREDENTIALS");
  await peer?.[Symbol.asyncDispose]();
});

bucketStoreTests("gcs", {
  location: () => peer!.location(),
  bucket: (location) => gcsBucket(location),
  open: (location) => openBucket(gcsBucket(location)),
});
