/** SPEC "Tunnels", SVC_TUNNEL_TAILSCALE_BIN. */
import { optionTable } from "../../../lib/config/table.ts";

const section = "Tunnels";

export const TAILSCALE = optionTable([
  {
    key: "tunnelTailscaleBin",
    kind: "string",
    env: ["SVC_TUNNEL_TAILSCALE_BIN"],
    defaultText: "tailscale on PATH",
    section,
    help: "Path of tailscale.",
    absent: "the tailscale tunnel backend",
  },
]);
