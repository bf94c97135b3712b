/** The registry's rows: the OCI Distribution Specification 1.1 over a content store. */
import type { Route } from "../api/route.ts";
import { blobRoutes } from "./blobs.ts";
import { listingRoutes } from "./listings.ts";
import { manifestRoutes } from "./manifests.ts";
import { referrerRoutes } from "./referrers.ts";
import { guarded, json, type RegistryOptions } from "./request.ts";
import { uploadRoutes } from "./uploads.ts";

/** These routes answer their own errors; `registryError` of errors.ts also serves errors of the server on `/v2`. */
export function createRegistry(options: RegistryOptions): Route[] {
  const base = ["/v2/", "/v2"].map((path): Route => ({
    method: "GET",
    path,
    action: "pull",
    help: "Says that this is a registry, and whether the credential is good.",
    handler: guarded(async ({ signal }) => {
      await options.reader.ready?.({ signal });
      return json({});
    }),
  }));
  return [
    ...base,
    ...listingRoutes(options),
    ...referrerRoutes(options),
    ...uploadRoutes(options),
    ...blobRoutes(options),
    ...manifestRoutes(options),
  ];
}
