/** Query parameter `allow` of builds: permissions that could harm the host (buildx's `--allow`). */
import { SvcError } from "../base/errors.ts";

export type Entitlement =
  | "security.insecure"
  /** RUN --network=host: everything that the server's host can reach, its loopback too. */
  | "network.host"
  | "device"
  | `device=${string}`
  /** Cache mounts that all callers share, on a server whose policy separates callers' cache mounts. */
  | "cache.shared";

export interface EntitlementSpec {
  right: "security.insecure" | "network.host" | "cache.shared" | "device";
  /** Names of devices, as in RUN --device; absent: any device. */
  device?: string;
  /** What the Dockerfile calls them. */
  alias?: string;
}

const RIGHTS = ["security.insecure", "network.host", "cache.shared", "device"] as const;

/** `security.insecure`, `network.host`, `cache.shared`, `device`, `device=NAME` or `device=NAME,alias=NAME`. Throws `argument_invalid`. */
export function parseEntitlement(text: string): EntitlementSpec {
  const right = RIGHTS.find((one) => one === text);
  if (right !== undefined) return { right };
  const [, device, alias] = /^device=([^\s,]+)(?:,alias=([^\s,]+))?$/.exec(text) ?? [];
  if (device !== undefined) return { right: "device", device, ...alias !== undefined && { alias } };
  throw new SvcError("argument_invalid", `Cannot allow ${JSON.stringify(text)}: it is not known`, {
    help:
      "write security.insecure, network.host, cache.shared, device, device=NAME or device=NAME,alias=NAME",
  });
}
