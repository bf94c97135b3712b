/** Addresses that carry their signature (Signature Version 4 in the query). */
import { createHash, createHmac } from "node:crypto";
import { type SdkRequest, urlOf } from "./http.ts";

export interface Signing {
  accessKeyId: string;
  secretAccessKey: string;
  sessionToken?: string;
  region: string;
}

const hmac = (key: string | Uint8Array, text: string) =>
  new Uint8Array(createHmac("sha256", key).update(text).digest());

/** An address for a GET of `target`, valid for `seconds` (a week at most) from `now` on. */
export function presign(
  target: Pick<SdkRequest, "protocol" | "hostname" | "port" | "path">,
  signing: Signing,
  seconds: number,
  now = new Date(),
): string {
  const time = now.toISOString().replace(/[-:]|\.\d+/g, "");
  const scope = [time.slice(0, 8), signing.region, "s3", "aws4_request"];
  const query: Record<string, string> = {
    "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
    "X-Amz-Credential": [signing.accessKeyId, ...scope].join("/"),
    "X-Amz-Date": time,
    "X-Amz-Expires": String(seconds),
    ...(signing.sessionToken && { "X-Amz-Security-Token": signing.sessionToken }),
    "X-Amz-SignedHeaders": "host",
  };
  const url = urlOf({ ...target, query });
  const [address, canonical] = url.split("?");
  const { host } = new URL(address);
  const demand = ["GET", target.path, canonical, `host:${host}`, "", "host", "UNSIGNED-PAYLOAD"];
  const hash = createHash("sha256").update(demand.join("\n")).digest("hex");
  const text = ["AWS4-HMAC-SHA256", time, scope.join("/"), hash].join("\n");
  const key = scope.reduce<string | Uint8Array>(hmac, `AWS4${signing.secretAccessKey}`);
  const signature = createHmac("sha256", key).update(text).digest("hex");
  return `${url}&X-Amz-Signature=${signature}`;
}
