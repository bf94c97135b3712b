/** Query parameter `allow` of builds: what they ask for that could harm the host (buildx's `--allow`). */
import { SvcError } from "../base/errors.ts";

export type Entitlement =
  | "security.insecure"
  /** What every build has: steps share the server's network. Callers that ask BuildKit for it may ask here. */
  | "network.host"
  | "device"
  | `device=${string}`;

export interface EntitlementSpec {
  right: "security.insecure" | "network.host" | "device";
  /** The devices, named as RUN --device does; absent: any. */
  device?: string;
  /** What the Dockerfile calls them. */
  alias?: string;
}

/** `security.insecure`, `network.host`, `device`, `device=NAME` or `device=NAME,alias=NAME`. Throws `argument_invalid`. */
export function parseEntitlement(text: string): EntitlementSpec {
  if (text === "security.insecure" || text === "network.host" || text === "device") {
    return { right: text };
  }
  const [, device, alias] = /^device=([^\s,]+)(?:,alias=([^\s,]+))?$/.exec(text) ?? [];
  if (device !== undefined) return { right: "device", device, ...alias !== undefined && { alias } };
  throw new SvcError("argument_invalid", `Cannot allow ${JSON.stringify(text)}: it is not known`, {
    help: "write security.insecure, network.host, device, device=NAME or device=NAME,alias=NAME",
  });
}
