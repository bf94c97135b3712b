/** Public tunnels: `/.svc/v1/tunnels…` (SPEC.md "Tunnels"). */
import type { Problem } from "./problem.ts";

export const TUNNEL_PROTOCOLS = ["http", "tcp"] as const;

/** What is spoken at the public end: it decides the URL's scheme, and what a visitor is told of a failure. */
export type TunnelProtocol = typeof TUNNEL_PROTOCOLS[number];

/** POST `/.svc/v1/tunnels`. */
export interface TunnelBody {
  deployment: string;
  /** Inside the instance. */
  port: number;
  /** Default: http. */
  protocol?: TunnelProtocol;
  /** Default: the server's. */
  backend?: string;
  /** Of the backend; never logged, recorded or told. */
  credential?: string;
}

export interface TunnelStatus {
  id: string;
  deployment: string;
  port: number;
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
}

/** What a held tunnel says, one JSON object a line, beginning with `opened`; the last one is `closed` or `error`. */
export type TunnelEvent =
  | { type: "opened"; tunnel: TunnelStatus }
  | { type: "down"; reason: string }
  | { type: "up"; url: string }
  /** Nothing happened for a while. */
  | { type: "alive" }
  | { type: "closed" }
  | { type: "error"; error: Problem };
