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
    help: "Backend of the tunnel; svc info lists the backends that the server is set up for.",
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
      "machine can see command lines: use --authtoken-file where that matters.",
    section,
  },
  {
    key: "authtokenFile",
    kind: "string",
    flag: "authtoken-file",
    placeholder: "FILE",
    defaultText: "tunnel.authtoken-file of the connection profile",
    help: "File that holds the credential.",
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
    help: "Protocol of the workload at that port.",
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
      "How the public host relates to the declared ones. passthrough: it is one of them. alias: it is " +
      "another name of one of them. rewrite: as alias, and the workload sees its declared host. auto: " +
      "passthrough where the public host is declared, else alias.",
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
    help: "No public URL: the ingress answers on this port of this machine; 0 is any free port.",
    section,
  },
  ...TUNNEL_CREDENTIAL_OPTIONS,
] as const satisfies readonly AnyOption[];
