/** Where the daemon of the Docker Engine API listens: DOCKER_HOST and its companions. */
import { join } from "node:path";
import { SvcError } from "../base/errors.ts";
import { joinHostPort, splitHostPort, splitLogin } from "../base/host_port.ts";

/** The socket of a daemon on this host, and on a host that is reached by SSH. */
export const DEFAULT_SOCKET = "/var/run/docker.sock";

/** Files of a client's certificate; docker's names in one folder. */
export interface TlsFiles {
  ca: string;
  cert: string;
  key: string;
}

export type DockerEndpoint =
  & {
    /** As a person writes it; names no secret. */
    address: string;
  }
  & (
    | { kind: "unix"; path: string }
    | { kind: "tcp"; host: string; port: number; tls?: TlsFiles }
    | { kind: "ssh"; user?: string; host: string; port?: number; socket: string }
  );

export interface EndpointSettings {
  /** DOCKER_HOST; empty or absent: the default socket. */
  host?: string;
  /** DOCKER_TLS_VERIFY is set: TLS, and the daemon's certificate is checked. */
  tls?: boolean;
  /** DOCKER_CERT_PATH: the folder of ca.pem, cert.pem and key.pem. */
  certPath?: string;
}

/** Host and port of a URL without its scheme; a path after them only where it is "/". */
function tcpAddress(rest: string, tls: boolean): { host: string; port: number } | undefined {
  const address = splitHostPort(rest.replace(/\/$/, ""));
  if (!address?.host) return undefined;
  return { host: address.host, port: address.port ?? (tls ? 2376 : 2375) };
}

function parse({ host = "", tls = false, certPath }: EndpointSettings): DockerEndpoint | string {
  if (host === "") {
    return { kind: "unix", address: `unix://${DEFAULT_SOCKET}`, path: DEFAULT_SOCKET };
  }
  const [, scheme, rest] = /^([a-z]+):\/\/(.*)$/.exec(host) ?? [];
  if (scheme === "unix") {
    return rest.startsWith("/") ? { kind: "unix", address: host, path: rest } : "it has no path";
  }
  if (scheme === "tcp" || scheme === "http" || scheme === "https") {
    const secure = scheme === "https" || (scheme === "tcp" && tls);
    const address = tcpAddress(rest, secure);
    if (!address) return "it has no host, or more than a host and a port";
    const words = `${scheme}://${joinHostPort(address.host, address.port)}`;
    if (!secure) return { kind: "tcp", address: words, ...address };
    if (!certPath) return "TLS needs DOCKER_CERT_PATH, the folder of ca.pem, cert.pem and key.pem";
    const [ca, cert, key] = ["ca", "cert", "key"].map((name) => join(certPath, `${name}.pem`));
    return { kind: "tcp", address: words, ...address, tls: { ca, cert, key } };
  }
  if (scheme === "ssh") {
    const slash = rest.indexOf("/");
    const login = splitLogin(slash < 0 ? rest : rest.slice(0, slash));
    const socket = slash < 0 ? "" : rest.slice(slash);
    if (!login?.host || login.host.startsWith("-")) return "it has no host";
    return {
      kind: "ssh",
      address: host,
      ...login,
      host: login.host,
      socket: socket.length > 1 ? socket : DEFAULT_SOCKET,
    };
  }
  return "its scheme is none of unix, tcp, http, https and ssh";
}

/** The daemon's endpoint. Throws `config_invalid`, naming `variable`. */
export function dockerEndpoint(
  settings: EndpointSettings,
  variable = "DOCKER_HOST",
): DockerEndpoint {
  const endpoint = parse(settings);
  if (typeof endpoint !== "string") return endpoint;
  throw new SvcError(
    "config_invalid",
    `Cannot use ${variable} ${JSON.stringify(settings.host)}: ${endpoint}`,
    { help: `write it as unix:///path, tcp://host:port or ssh://user@host` },
  );
}
