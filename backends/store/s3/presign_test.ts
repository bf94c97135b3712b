import assert from "node:assert/strict";
import { presign } from "./presign.ts";

Deno.test("presign: the example of Amazon's documentation", () => {
  // "Authenticating Requests: Using Query Parameters (AWS Signature Version 4)".
  const url = presign(
    { protocol: "https:", hostname: "examplebucket.s3.amazonaws.com", path: "/test.txt" },
    {
      accessKeyId: "AKIAIOSFODNN7EXAMPLE",
      secretAccessKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
      region: "us-east-1",
    },
    86400,
    new Date("2013-05-24T00:00:00.000Z"),
  );
  assert.equal(
    new URL(url).searchParams.get("X-Amz-Signature"),
    "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404",
  );
});
