/** The types of a validated connection profile (SPEC.md "Client connection profile file"). */

export interface Profile {
  "current-context"?: string;
  contexts: Record<string, Context>;
}

export interface Context {
  server?: string;
  "registry-host"?: string;
  token?: string;
  tls?: TlsSettings;
  "port-forward"?: PortForward;
  "kube-auth"?: KubeAuth;
  "key-auth"?: KeyAuth;
  "token-exchange"?: TokenExchange;
  "via-server"?: boolean;
  conduit?: Conduit;
  "ssh-tunnel"?: SshTunnel;
  tunnel?: { "authtoken-file"?: string; "ingress-host-mode"?: string };
  shells?: string[];
}

export interface TlsSettings {
  "ca-cert"?: string;
  "server-name"?: string;
  "insecure-skip-verify"?: boolean;
  "client-cert"?: string;
  "client-key"?: string;
}

export interface PortForward {
  "kube-context"?: string;
  namespace?: string;
  service?: string;
  "remote-port"?: number;
}

export interface KubeAuth {
  "kube-context"?: string;
  namespace?: string;
  "service-account"?: string;
  audience?: string;
  "expiration-seconds"?: number;
}

export interface KeyAuth {
  "identity-file"?: string;
  "key-fingerprint"?: string;
  name?: string;
  scope?: string;
  /** Go duration. */
  ttl?: string;
}

export interface TokenExchange {
  enabled?: boolean;
  scope?: string;
}

export interface SshTunnel {
  addr?: string;
  user?: string;
  "remote-addr"?: string;
  "identity-file"?: string;
  "no-agent"?: boolean;
  "known-hosts"?: string;
  "host-key"?: string;
  "insecure-host-key"?: boolean;
  "remote-tls"?: boolean;
  "no-ssh-config"?: boolean;
  "use-ssh-binary"?: boolean;
}

export interface Conduit {
  mode?: string;
  socks5?: {
    listen?: string;
    "service-host-suffix"?: string;
    resolve?: { pattern: string; replace: string }[];
    "bare-service-names"?: boolean;
  };
  ingress?: {
    mode?: string;
    controller?: {
      "kube-context"?: string;
      namespace?: string;
      service?: string;
      "http-port"?: number;
      "https-port"?: number;
    };
    "ca-file"?: string;
    "ca-key-file"?: string;
    certificates?: { pattern?: string; certificate: string; key: string }[];
  };
}
