/** Options of `svc tunnel`: data only. */
import type { AnyOption } from "../config/load.ts";
import { optionRows } from "../config/option_rows.ts";

const { text } = optionRows("Options");

/** Options of every command that opens a tunnel. */
export const TUNNEL_CREDENTIAL_OPTIONS = [
  {
    ...text(
      "backend",
      "backend",
      "NAME",
      "Backend of the tunnel; svc info lists the backends that the server is set up for.",
    ),
    defaultText: "SVC_TUNNEL_BACKEND of the server",
  },
  {
    ...text(
      "authtoken",
      "authtoken",
      "TOKEN",
      "Credential of the tunnel's backend; for ssh the text of a private key. Other users of " +
        "this machine can see command lines: use --authtoken-file where that matters.",
    ),
    env: ["SVC_TUNNEL_AUTHTOKEN"],
    defaultText: "SVC_TUNNEL_AUTHTOKEN of the server",
  },
  {
    ...text("authtokenFile", "authtoken-file", "FILE", "File that holds the credential."),
    defaultText: "tunnel.authtoken-file of the connection profile",
  },
] as const satisfies readonly AnyOption[];

export const TUNNEL_OPTIONS = [
  {
    ...text("protocol", "protocol", "PROTOCOL", "Protocol of the workload at that port."),
    default: "http",
    choices: ["http", "tcp"],
  },
  ...TUNNEL_CREDENTIAL_OPTIONS,
] as const satisfies readonly AnyOption[];

export const INGRESS_TUNNEL_OPTIONS = [
  {
    ...text(
      "hostMode",
      "host-mode",
      "MODE",
      "How the public host relates to the declared ones. passthrough: it is one of them. " +
        "alias: it is another name of one of them. rewrite: as alias, and the workload sees " +
        "its declared host. auto: passthrough where the public host is declared, else alias.",
    ),
    defaultText: "tunnel.ingress-host-mode of the connection profile, else auto",
    choices: ["auto", "passthrough", "alias", "rewrite"],
  },
  {
    ...text(
      "host",
      "host",
      "HOST",
      "The declared host that answers; with passthrough the one to publish.",
    ),
    defaultText: "the only one that is declared",
  },
  text(
    "local",
    "local",
    "[HOST:]PORT",
    "No public URL: the ingress answers on this port of this machine; 0 is any free port.",
  ),
  ...TUNNEL_CREDENTIAL_OPTIONS,
] as const satisfies readonly AnyOption[];
