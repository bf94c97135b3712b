/** SPEC "Tunnels", SVC_TUNNEL_SSH_…. */
import { splitHostPort, splitLogin } from "../../../lib/base/host_port.ts";
import { fillTemplate, unknownPlaceholders } from "../../../lib/base/template.ts";
import { invalid } from "../../../lib/config/checks.ts";
import { optionTable, type SettingsOf } from "../../../lib/config/table.ts";

const section = "Tunnels";

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

function checkUrl(
  settings: { tunnelSshUrlTemplate?: string; tunnelSshUrlFromSession: boolean },
): void {
  if (settings.tunnelSshUrlTemplate === undefined || !settings.tunnelSshUrlFromSession) return;
  throw invalid(
    "SVC_TUNNEL_SSH_URL_TEMPLATE",
    "it and SVC_TUNNEL_SSH_URL_FROM_SESSION exclude each other; unset one of them",
  );
}

export const SSH = optionTable([
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
    help: "User to log in as at that SSH server.",
  },
  {
    key: "tunnelSshBind",
    kind: "string",
    env: ["SVC_TUNNEL_SSH_BIND"],
    default: ":0",
    section,
    help:
      "Where the SSH server listens, [host:]port as in ssh -R; with port 0 the SSH server chooses one.",
    check: bindAddress,
  },
  {
    key: "tunnelSshUrlTemplate",
    kind: "string",
    env: ["SVC_TUNNEL_SSH_URL_TEMPLATE"],
    defaultText: "{protocol}://{host}:{port}",
    section,
    help:
      "Public URL of a tunnel. {host}: the host of the bind address where it is public, else the SSH " +
      "server's; {port}: the port that the SSH server listens on; {name}: the deployment; {protocol}: " +
      "http or tcp.",
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
    help: "Accept any host key (testing only).",
    warning: "tunnels trust whoever answers as the SSH server",
  },
], checkUrl);

export type SshSettings = SettingsOf<[typeof SSH]>;
