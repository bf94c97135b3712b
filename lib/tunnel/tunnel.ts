/** A tunnel backend: gives connections from a public URL to who accepts them here. */
import type { TunnelProtocol } from "../api/tunnel.ts";
import type { SvcError } from "../base/errors.ts";
import type { Duplex } from "../wire/duplex.ts";

/** The backend reconnects by itself; a URL may be another one afterwards. */
export type TunnelChange = { state: "down"; reason: string } | { state: "up"; url: string };

export interface TunnelRequest {
  /** For URLs: the deployment's name, or "ingress". */
  name: string;
  /** Public host to ask for, where the backend can: what it is otherwise set up for does not count then. */
  hostname?: string;
  protocol: TunnelProtocol;
  /** Takes a connection that came in, and with it the duty to end it; `from`: the visitor's address. */
  accept: (stream: Duplex, from?: string) => void;
  /** Neither logged nor recorded. */
  credential?: string;
  onChange?: (change: TunnelChange) => void;
}

export interface OpenTunnel extends AsyncDisposable {
  /** As it was when the tunnel opened; `onChange` tells of another. */
  readonly url: string;
  /** Resolves at its end: with why where the backend gave up, with nothing where it was disposed of. */
  readonly closed: Promise<SvcError | undefined>;
}

export interface Tunnel {
  /**
   * Resolves when the URL leads here. Throws `argument_invalid` for what is no credential, `port_in_use`,
   * and `upstream_failed` where the other end refuses, is not who it should be, or is not there. Disposing
   * of what it gives ends its connections.
   */
  open(request: TunnelRequest, signal: AbortSignal): Promise<OpenTunnel>;
}
