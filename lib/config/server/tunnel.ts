/** SPEC "Tunnels". */
import { splitHostPort, splitLogin } from "../../base/host_port.ts";
import { fillTemplate, unknownPlaceholders } from "../../base/template.ts";
import { invalid, oneOf } from "../checks.ts";
import type { AnyOption } from "../load.ts";

const section = "Tunnels";

/** What SVC_TUNNEL_BACKEND is where nobody sets it. */
export const DEFAULT_TUNNEL_BACKEND = "ngrok";

const SAMPLE = { host: "host", port: "1", name: "name", protocol: "http" };

function sshAddress(value: string, source: string): string {
  const parts = splitLogin(value);
  if (parts?.host !== undefined && parts.port !== 0 && !parts.host.startsWith("-")) return value;
  throw invalid(source, `${JSON.stringify(value)} is not [user@]host[:port]`);
}

function bindAddress(value: string, source: string): string {
  if (splitHostPort(/^\d+$/.test(value) ? `:${value}` : value)?.port !== undefined) return value;
  throw invalid(
    source,
    `${JSON.stringify(value)} is not [host:]port, such as 8080, localhost:0 or *:80`,
  );
}

function urlTemplate(value: string, source: string): string {
  const [unknown] = unknownPlaceholders(value, Object.keys(SAMPLE));
  if (unknown !== undefined) {
    const known = Object.keys(SAMPLE).map((name) => `{${name}}`).join(", ");
    throw invalid(source, `{${unknown}} is not one of ${known}`);
  }
  if (URL.parse(fillTemplate(value, SAMPLE))?.hostname) return value;
  throw invalid(source, `${JSON.stringify(value)} makes no URL`);
}

function publicKey(value: string, source: string): string {
  if (/^\s*(ssh|ecdsa)-[\w@.-]+\s+[A-Za-z0-9+/]{40,}={0,2}(\s.*)?$/.test(value)) return value;
  throw invalid(
    source,
    "it is not a public key such as `ssh-ed25519 AAAA…`; ssh-keyscan prints a host's, after its name",
  );
}

export const TUNNEL = [
  {
    key: "tunnelBackend",
    kind: "string",
    env: ["SVC_TUNNEL_BACKEND"],
    default: DEFAULT_TUNNEL_BACKEND,
    section,
    help: "What public tunnels are made with: ssh (a reverse tunnel); ngrok, cloudflare and " +
      "tailscale are not in this build yet.",
    check: oneOf(["ngrok", "ssh", "cloudflare", "tailscale"]),
  },
  {
    key: "tunnelAuthtoken",
    kind: "string",
    env: ["SVC_TUNNEL_AUTHTOKEN"],
    section,
    help: "Credential of the selected backend where a client sends none; for ssh the text of a " +
      "private key without a passphrase.",
  },
  {
    key: "tunnelCloudflaredBin",
    kind: "string",
    env: ["SVC_TUNNEL_CLOUDFLARED_BIN"],
    defaultText: "cloudflared on PATH",
    section,
    help: "Path of cloudflared.",
    absent: "the cloudflare tunnel backend",
  },
  {
    key: "tunnelTailscaleBin",
    kind: "string",
    env: ["SVC_TUNNEL_TAILSCALE_BIN"],
    defaultText: "tailscale on PATH",
    section,
    help: "Path of tailscale.",
    absent: "the tailscale tunnel backend",
  },
  {
    key: "tunnelSshAddr",
    kind: "string",
    env: ["SVC_TUNNEL_SSH_ADDR"],
    section,
    help: "SSH server of tunnels, [user@]host[:port].",
    check: sshAddress,
  },
  {
    key: "tunnelSshUser",
    kind: "string",
    env: ["SVC_TUNNEL_SSH_USER"],
    defaultText: "the one in SVC_TUNNEL_SSH_ADDR, else the user that the server runs as",
    section,
    help: "User to log in there as.",
  },
  {
    key: "tunnelSshBind",
    kind: "string",
    env: ["SVC_TUNNEL_SSH_BIND"],
    default: ":0",
    section,
    help: "Where the SSH server listens, [host:]port as in ssh -R; port 0: it chooses one.",
    check: bindAddress,
  },
  {
    key: "tunnelSshUrlTemplate",
    kind: "string",
    env: ["SVC_TUNNEL_SSH_URL_TEMPLATE"],
    defaultText: "{protocol}://{host}:{port}",
    section,
    help:
      "Public URL of a tunnel. {host}: the bind address's where it is a public one, else the SSH " +
      "server's; {port}: where it listens; {name}: the deployment; {protocol}: http or tcp.",
    check: urlTemplate,
  },
  {
    key: "tunnelSshUrlFromSession",
    kind: "bool",
    env: ["SVC_TUNNEL_SSH_URL_FROM_SESSION"],
    default: false,
    section,
    help: "The public URL is the first one that the SSH server prints in a session.",
  },
  {
    key: "tunnelSshHostkey",
    kind: "string",
    env: ["SVC_TUNNEL_SSH_HOSTKEY"],
    section,
    help: "The SSH server's host key, as in a .pub file.",
    check: publicKey,
  },
  {
    key: "tunnelSshKnownHosts",
    kind: "string",
    env: ["SVC_TUNNEL_SSH_KNOWN_HOSTS"],
    section,
    help: "known_hosts file that has the SSH server's host key.",
  },
  {
    key: "tunnelSshInsecure",
    kind: "bool",
    env: ["SVC_TUNNEL_SSH_INSECURE"],
    default: false,
    section,
    help: "Accept any host key: for tests only.",
  },
] as const satisfies readonly AnyOption[];

/** Throws `config_invalid` where the chosen backend lacks a setting, or two exclude each other. */
export function checkTunnel(
  config: Readonly<Record<"tunnelBackend" | "tunnelSshAddr", string | undefined>> & {
    tunnelSshUrlTemplate?: string;
    tunnelSshUrlFromSession: boolean;
  },
): void {
  if (config.tunnelBackend === "ssh" && config.tunnelSshAddr === undefined) {
    throw invalid("SVC_TUNNEL_BACKEND", "ssh needs SVC_TUNNEL_SSH_ADDR, which is not set");
  }
  if (config.tunnelSshUrlTemplate !== undefined && config.tunnelSshUrlFromSession) {
    throw invalid(
      "SVC_TUNNEL_SSH_URL_TEMPLATE",
      "it and SVC_TUNNEL_SSH_URL_FROM_SESSION exclude each other; unset one of them",
    );
  }
}
