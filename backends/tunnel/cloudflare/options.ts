/** SPEC "Tunnels", SVC_TUNNEL_CLOUDFLARED_BIN. */
import { optionTable } from "../../../lib/config/table.ts";

const section = "Tunnels";

export const CLOUDFLARE = optionTable([
  {
    key: "tunnelCloudflaredBin",
    kind: "string",
    env: ["SVC_TUNNEL_CLOUDFLARED_BIN"],
    defaultText: "cloudflared on PATH",
    section,
    help: "Path of cloudflared.",
    absent: "the cloudflare tunnel backend",
  },
]);
