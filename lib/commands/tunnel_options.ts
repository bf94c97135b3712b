/** Options of `svc tunnel`: data only. */
import type { AnyOption } from "../config/load.ts";

const section = "Options";

/** Options of every command that opens a tunnel. */
export const TUNNEL_CREDENTIAL_OPTIONS = [
  {
    key: "backend",
    kind: "string",
    flag: "backend",
    placeholder: "NAME",
    defaultText: "SVC_TUNNEL_BACKEND of the server",
    help: "What the tunnel is made with; svc info lists what the server is set up for.",
    section,
  },
  {
    key: "authtoken",
    kind: "string",
    flag: "authtoken",
    env: ["SVC_TUNNEL_AUTHTOKEN"],
    placeholder: "TOKEN",
    defaultText: "SVC_TUNNEL_AUTHTOKEN of the server",
    help:
      "Credential of the tunnel's backend; for ssh the text of a private key. Other users of this " +
      "machine see what stands on a command line: --authtoken-file keeps it to yourself.",
    section,
  },
  {
    key: "authtokenFile",
    kind: "string",
    flag: "authtoken-file",
    placeholder: "FILE",
    defaultText: "tunnel.authtoken-file of the connection profile",
    help: "File that holds it.",
    section,
  },
] as const satisfies readonly AnyOption[];

export const TUNNEL_OPTIONS = [
  {
    key: "protocol",
    kind: "string",
    flag: "protocol",
    placeholder: "PROTOCOL",
    default: "http",
    choices: ["http", "tcp"],
    help: "What the workload speaks there.",
    section,
  },
  ...TUNNEL_CREDENTIAL_OPTIONS,
] as const satisfies readonly AnyOption[];

export const INGRESS_TUNNEL_OPTIONS = [
  {
    key: "hostMode",
    kind: "string",
    flag: "host-mode",
    placeholder: "MODE",
    defaultText: "tunnel.ingress-host-mode of the connection profile, else auto",
    choices: ["auto", "passthrough", "alias", "rewrite"],
    help:
      "What the public host is to the declared ones. passthrough: one of them. alias: another name of one " +
      "of them. rewrite: the same, and the workload is told its own. auto: passthrough where it is " +
      "declared, else alias.",
    section,
  },
  {
    key: "host",
    kind: "string",
    flag: "host",
    placeholder: "HOST",
    defaultText: "the only one that is declared",
    help: "The declared host that answers; with passthrough the one to publish.",
    section,
  },
  {
    key: "local",
    kind: "string",
    flag: "local",
    placeholder: "[HOST:]PORT",
    help: "No public URL: the ingress answers on this port of this machine; 0 is any free one.",
    section,
  },
  ...TUNNEL_CREDENTIAL_OPTIONS,
] as const satisfies readonly AnyOption[];
