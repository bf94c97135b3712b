/** Public tunnels: `/.svc/v1/tunnels…` (SPEC.md "Tunnels"). */
import type { Problem } from "./problem.ts";

export const TUNNEL_PROTOCOLS = ["http", "tcp"] as const;

/** The protocol at the public end: decides the URL's scheme, and how a visitor is told of a failure. */
export type TunnelProtocol = typeof TUNNEL_PROTOCOLS[number];

/** How the public host of a tunnel to the ingress maps to the hosts that deployments declare. */
export const HOST_MODES = ["auto", "passthrough", "alias", "rewrite"] as const;
export type HostMode = typeof HOST_MODES[number];

/** The host mode that a tunnel uses. */
export interface IngressAim {
  hostMode: Exclude<HostMode, "auto">;
  /** The declared host that answers (`alias`, `rewrite`), or that is published (`passthrough`). */
  host?: string;
}

/** POST `/.svc/v1/tunnels`: to a deployment's port, or to the ingress. */
export interface TunnelBody {
  deployment?: string;
  /** Port inside the instance. */
  port?: number;
  /** Default: http. The ingress supports only http. */
  protocol?: TunnelProtocol;
  /** Instead of `deployment` and `port`. `hostMode`: default auto. */
  ingress?: { hostMode?: HostMode; host?: string };
  /** Default: the server's. */
  backend?: string;
  /** Credential for the backend; never logged, stored or shown. */
  credential?: string;
}

/** The destination of a tunnel. */
export type TunnelAim =
  | { deployment: string; port: number; ingress?: undefined }
  | { ingress: IngressAim; deployment?: undefined; port?: undefined };

export type TunnelStatus = TunnelAim & {
  id: string;
  protocol: TunnelProtocol;
  backend: string;
  url: string;
  /** down: the backend is reconnecting. */
  state: "up" | "down";
  /** Why the tunnel is down. */
  reason?: string;
  /** True: the tunnel ends with the request that opened it. */
  held: boolean;
  /** Open connections. */
  connections: number;
  /** Identity that opened the tunnel. */
  subject: string;
  /** RFC 3339 */
  openedAt: string;
};

/** Events of a held tunnel, one JSON object a line. The first is `opened`, the last `closed` or `error`. */
export type TunnelEvent =
  | { type: "opened"; tunnel: TunnelStatus }
  | { type: "down"; reason: string }
  | { type: "up"; url: string }
  /** Sent when nothing happened for a while. */
  | { type: "alive" }
  | { type: "closed" }
  | { type: "error"; error: Problem };
