/**
 * The fields of a context. Validation, `svc config set-context`, redaction and the reference page read these
 * rows (SPEC.md "Client connection profile file").
 */
import { parseDuration } from "../../base/duration.ts";
import { CONDUIT_FIELDS } from "./fields_conduit.ts";
import { type Field, hostPort, login, pair, port } from "./field.ts";

const DAY_MS = 24 * 3_600_000;

function serverUrl(value: string): string | undefined {
  const url = URL.parse(value);
  const good = url && /^https?:$/.test(url.protocol) && url.hostname !== "" && !url.search &&
    !url.hash && !url.username;
  return good ? undefined : `${JSON.stringify(value)} is not http(s)://<host>[:<port>]`;
}

/** Milliseconds; undefined for an invalid duration. */
function duration(text: string): number | undefined {
  try {
    return parseDuration(text);
  } catch {
    return undefined;
  }
}

function ttl(value: string): string | undefined {
  const ms = duration(value);
  if (ms === undefined) return `${JSON.stringify(value)} is not a duration such as 1h30m`;
  return ms > 0 && ms <= DAY_MS ? undefined : `${value} is not above 0 and at most 24h`;
}

const TLS_FIELDS: readonly Field[] = [
  {
    name: "ca-cert",
    kind: "string",
    path: true,
    pem: "certificate",
    defaultText: "system trust store",
    help: "PEM CA bundle verifying the server certificate.",
  },
  {
    name: "server-name",
    kind: "string",
    defaultText: "URL hostname",
    help: "Name that is asked for (SNI) and that the server's certificate must be for.",
  },
  {
    name: "insecure-skip-verify",
    kind: "bool",
    defaultText: "false",
    help: "Do not verify the server's certificate (testing only).",
  },
  {
    name: "client-cert",
    kind: "string",
    path: true,
    pem: "certificate",
    help: "PEM client certificate for mTLS.",
  },
  { name: "client-key", kind: "string", path: true, pem: "key", help: "Matching PEM client key." },
];

const PORT_FORWARD_FIELDS: readonly Field[] = [
  {
    name: "kube-context",
    kind: "string",
    defaultText: "current kube context",
    help: "Kubeconfig context.",
  },
  {
    name: "namespace",
    kind: "string",
    help: "Namespace of the Service; absent: the kube context's.",
  },
  { name: "service", kind: "string", help: "Service to forward to." },
  {
    name: "remote-port",
    kind: "int",
    check: port,
    help: "Port of the Service; resolved to a ready pod behind it and its target port.",
  },
];

const KUBE_AUTH_FIELDS: readonly Field[] = [
  {
    name: "kube-context",
    kind: "string",
    defaultText: "the port-forward block's value",
    help: "Kubeconfig context to mint against.",
  },
  {
    name: "namespace",
    kind: "string",
    defaultText: "the port-forward block's value",
    help: "Namespace of the ServiceAccount.",
  },
  { name: "service-account", kind: "string", help: "ServiceAccount to mint the token for." },
  {
    name: "audience",
    kind: "string",
    help: "Audience of the token; must match the server's `SVC_JWT_AUDIENCE`.",
  },
  {
    name: "expiration-seconds",
    kind: "int",
    defaultText: "cluster default",
    check: (value: number) => value > 0 ? undefined : `${value} is not positive`,
    help: "Requested lifetime of the token.",
  },
];

const KEY_AUTH_FIELDS: readonly Field[] = [
  {
    name: "identity-file",
    kind: "string",
    path: true,
    help: "SSH private key. An encrypted one is asked for by prompt or `SSH_ASKPASS`.",
  },
  {
    name: "key-fingerprint",
    kind: "string",
    check: (value: string) =>
      /^SHA256:[A-Za-z0-9+/]{43}=?$/.test(value)
        ? undefined
        : `${JSON.stringify(value)} is not SHA256:<fingerprint>, as ssh-keygen -lf prints it`,
    help:
      "`SHA256:<fingerprint>` of the public key. Without an identity file it selects a key of the " +
      "agent at `SSH_AUTH_SOCK`; with one it pins the public key that is expected.",
  },
  {
    name: "name",
    kind: "string",
    defaultText: "the fingerprint",
    help: "Name to enrol the key under: the identity of its sessions.",
  },
  { name: "scope", kind: "string", defaultText: "api", help: "Scope of the session." },
  {
    name: "ttl",
    kind: "string",
    defaultText: "1h",
    check: ttl,
    help: "Lifetime of the session, a Go duration of at most 24h.",
  },
];

const TOKEN_EXCHANGE_FIELDS: readonly Field[] = [
  { name: "enabled", kind: "bool", defaultText: "false", help: "Exchange the credential." },
  {
    name: "scope",
    kind: "string",
    help: "Narrows the credential (`registry:pull`); absent: whatever the server grants.",
  },
];

const SSH_TUNNEL_FIELDS: readonly Field[] = [
  {
    name: "addr",
    kind: "string",
    check: login,
    help: "Host alias of ssh_config, or `[user@]host[:port]`.",
  },
  {
    name: "user",
    kind: "string",
    defaultText: "ssh_config, then current user",
    help: "Login user.",
  },
  {
    name: "remote-addr",
    kind: "string",
    defaultText: "127.0.0.1:5000",
    check: hostPort,
    help: "The server's listen address as the remote host sees it.",
  },
  {
    name: "identity-file",
    kind: "string",
    path: true,
    defaultText: "SSH agent / ssh_config",
    help: "Private key to log in with.",
  },
  {
    name: "no-agent",
    kind: "bool",
    defaultText: "false",
    help: "Do not log in with the keys of the agent at `SSH_AUTH_SOCK`.",
  },
  {
    name: "known-hosts",
    kind: "string",
    path: true,
    defaultText: "ssh_config, then ~/.ssh/known_hosts",
    help: "known_hosts file that host keys are checked against.",
  },
  {
    name: "host-key",
    kind: "string",
    check: (value: string) =>
      /^[a-z0-9@.-]+ [A-Za-z0-9+/]+={0,2}(\s.*)?$/.test(value)
        ? undefined
        : "expected one line of OpenSSH's public-key form: ssh-ed25519 AAAA…",
    help: "The one host key that is expected, as a line of authorized_keys.",
  },
  {
    name: "insecure-host-key",
    kind: "bool",
    defaultText: "false",
    help: "Do not verify the host key (development only).",
  },
  {
    name: "remote-tls",
    kind: "bool",
    defaultText: "false",
    help: "The server behind the tunnel speaks TLS; usually with `tls.server-name`.",
  },
  {
    name: "no-ssh-config",
    kind: "bool",
    defaultText: "false",
    help: "Read neither the user's nor the system's SSH configuration.",
  },
  {
    name: "use-ssh-binary",
    kind: "bool",
    defaultText: "auto",
    help:
      "Tunnel through a persistent `ssh -N -L`; chosen by itself where the host has a ProxyCommand " +
      "or ProxyJump.",
  },
];

const TUNNEL_FIELDS: readonly Field[] = [
  {
    name: "authtoken-file",
    kind: "string",
    path: true,
    help: "File that holds the tunnel backend's credential: the default of `--authtoken-file`.",
  },
  {
    name: "ingress-host-mode",
    kind: "string",
    defaultText: "auto",
    choices: ["auto", "passthrough", "alias", "rewrite"],
    help: "Default of `--host-mode` of `svc ingress-tunnel`.",
  },
];

export const CONTEXT_FIELDS: readonly Field[] = [
  {
    name: "server",
    kind: "string",
    check: serverUrl,
    help:
      "Base URL, `http(s)://<host>[:<port>]`. Where it is absent, `port-forward` or `ssh-tunnel` " +
      "reaches the server.",
  },
  {
    name: "registry-host",
    kind: "string",
    defaultText: "derived from the server",
    check: hostPort,
    help:
      "host[:port] of built images' names and of what deployments pull; absent: what the server " +
      "says, else the host of its URL.",
  },
  {
    name: "token",
    kind: "string",
    secret: true,
    defaultText: "`SVC_TOKEN`",
    help: "Bearer token or JWT, sent as `Authorization: Bearer`.",
  },
  {
    name: "tls",
    kind: "block",
    title: "TLS",
    fields: TLS_FIELDS,
    defaultText: "system defaults",
    together: pair("client-cert", "client-key"),
    help: "Custom CA, mTLS and insecure settings of an HTTPS endpoint.",
  },
  {
    name: "port-forward",
    kind: "block",
    title: "PortForward",
    fields: PORT_FORWARD_FIELDS,
    together: required("service", "remote-port"),
    help: "Service in a cluster to forward to before dialing.",
  },
  {
    name: "kube-auth",
    kind: "block",
    title: "KubeAuth",
    fields: KUBE_AUTH_FIELDS,
    together: required("service-account"),
    help: "Takes the bearer token from the cluster: a short-lived one of a ServiceAccount.",
  },
  {
    name: "key-auth",
    kind: "block",
    title: "KeyAuth",
    fields: KEY_AUTH_FIELDS,
    together: (block) =>
      block["identity-file"] === undefined && block["key-fingerprint"] === undefined
        ? { field: "identity-file", why: "missing; give it, key-fingerprint, or both" }
        : undefined,
    help: "Proves possession of an enrolled SSH key for a short-lived session. Not together with " +
      "`kube-auth`.",
  },
  {
    name: "token-exchange",
    kind: "block",
    title: "TokenExchange",
    fields: TOKEN_EXCHANGE_FIELDS,
    help: "Trades the credential for a short-lived one of the server, kept between commands.",
  },
  {
    name: "via-server",
    kind: "bool",
    defaultText: "unset (direct)",
    help:
      "Workload streams go through the server instead of straight to the cluster; matters in a " +
      "cluster profile. Below `SVC_VIA_SERVER` and `--via-server`. In this build they always do.",
  },
  {
    name: "conduit",
    kind: "block",
    title: "Conduit",
    fields: CONDUIT_FIELDS,
    defaultText: "port-forward mode",
    help: "How a session shows a deployment's ports. Below `SVC_CONDUIT` and `--conduit`.",
  },
  {
    name: "ssh-tunnel",
    kind: "block",
    title: "SSHTunnel",
    fields: SSH_TUNNEL_FIELDS,
    together: required("addr"),
    help:
      "Reaches the server through SSH where `server` is absent; without effect where it is set. Not " +
      "together with `port-forward`.",
  },
  {
    name: "tunnel",
    kind: "block",
    title: "Tunnel",
    fields: TUNNEL_FIELDS,
    help: "Defaults of public tunnels (`svc tunnel`, `svc ingress-tunnel`).",
  },
  {
    name: "shells",
    kind: "strings",
    defaultText: "bash, ash, sh",
    help:
      "Shells that `svc exec -it NAME` tries in a workload, best first, after the workload's own and before " +
      "the usual ones; each is one command string.",
  },
];

function required(...names: string[]): NonNullable<Field["together"]> {
  return (block) => {
    const field = names.find((name) => block[name] === undefined);
    return field === undefined ? undefined : { field, why: "missing" };
  };
}

/** Rules over several blocks of one context. */
export function contextTogether(
  context: Record<string, unknown>,
): { field: string; why: string } | undefined {
  const both = (a: string, b: string) => context[a] !== undefined && context[b] !== undefined;
  if (both("kube-auth", "key-auth")) {
    return { field: "key-auth", why: "cannot stand beside kube-auth; remove one of them" };
  }
  if (both("port-forward", "ssh-tunnel") && context.server === undefined) {
    return { field: "ssh-tunnel", why: "cannot stand beside port-forward; remove one of them" };
  }
  return undefined;
}
