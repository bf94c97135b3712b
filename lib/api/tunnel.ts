/** Public tunnels: `/.svc/v1/tunnels…` (SPEC.md "Tunnels"). */
import type { Problem } from "./problem.ts";

export const TUNNEL_PROTOCOLS = ["http", "tcp"] as const;

/** What is spoken at the public end: it decides the URL's scheme, and what a visitor is told of a failure. */
export type TunnelProtocol = typeof TUNNEL_PROTOCOLS[number];

/** How the public host of a tunnel to the ingress maps to the hosts that deployments declare. */
export const HOST_MODES = ["auto", "passthrough", "alias", "rewrite"] as const;
export type HostMode = typeof HOST_MODES[number];

/** A host mode as it turned out. */
export interface IngressAim {
  hostMode: Exclude<HostMode, "auto">;
  /** The declared host that answers (`alias`, `rewrite`), or that is published (`passthrough`). */
  host?: string;
}

/** POST `/.svc/v1/tunnels`: to a deployment's port, or to the ingress. */
export interface TunnelBody {
  deployment?: string;
  /** Inside the instance. */
  port?: number;
  /** Default: http. Of the ingress nothing else. */
  protocol?: TunnelProtocol;
  /** In the place of `deployment` and `port`. `hostMode`: default auto. */
  ingress?: { hostMode?: HostMode; host?: string };
  /** Default: the server's. */
  backend?: string;
  /** Of the backend; never logged, recorded or told. */
  credential?: string;
}

/** What a tunnel leads to. */
export type TunnelAim =
  | { deployment: string; port: number; ingress?: undefined }
  | { ingress: IngressAim; deployment?: undefined; port?: undefined };

export type TunnelStatus = TunnelAim & {
  id: string;
  protocol: TunnelProtocol;
  backend: string;
  url: string;
  /** down: the backend is connecting anew. */
  state: "up" | "down";
  /** Why it is down. */
  reason?: string;
  /** It ends with the request that opened it. */
  held: boolean;
  /** Open now. */
  connections: number;
  /** Who opened it. */
  subject: string;
  /** RFC 3339 */
  openedAt: string;
};

/** What a held tunnel says, one JSON object a line, beginning with `opened`; the last one is `closed` or `error`. */
export type TunnelEvent =
  | { type: "opened"; tunnel: TunnelStatus }
  | { type: "down"; reason: string }
  | { type: "up"; url: string }
  /** Nothing happened for a while. */
  | { type: "alive" }
  | { type: "closed" }
  | { type: "error"; error: Problem };
