/** A tunnel backend: accepts connections at a public URL and passes them on to this server. */
import type { TunnelProtocol } from "../api/tunnel.ts";
import type { SvcError } from "../base/errors.ts";
import type { Duplex } from "../wire/duplex.ts";

/** The backend reconnects by itself; its URL may change. */
export type TunnelChange = { state: "down"; reason: string } | { state: "up"; url: string };

export interface TunnelRequest {
  /** Name for URLs: the deployment's, or "ingress". */
  name: string;
  /** Public host to ask for, if the backend supports that; it overrides the backend's settings. */
  hostname?: string;
  protocol: TunnelProtocol;
  /** Takes over a connection and must end it. `from`: the visitor's address. */
  accept: (stream: Duplex, from?: string) => void;
  /** Must not be logged or stored. */
  credential?: string;
  onChange?: (change: TunnelChange) => void;
}

export interface OpenTunnel extends AsyncDisposable {
  /** The URL when the tunnel opened; `onChange` reports a new one. */
  readonly url: string;
  /**
   * Resolves at the end: with the error where the backend gave up, with undefined where the tunnel was disposed
   * of.
   */
  readonly closed: Promise<SvcError | undefined>;
}

export interface Tunnel {
  /**
   * Resolves when the URL leads here. Throws `argument_invalid` for an invalid credential, `port_in_use`, and
   * `upstream_failed` where the other end refuses, has the wrong identity, or cannot be reached. Disposing of
   * the tunnel ends its connections.
   */
  open(request: TunnelRequest, signal: AbortSignal): Promise<OpenTunnel>;
}
