/** The used part of ssh2, which has no types of its own. */
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { ParsedKey } from "../../../lib/wire/ssh/private_key.ts";

/** Its `destroy` ends and closes it in order; nothing of it is an error. */
export interface Channel extends Duplex {
  close(): void;
  readonly stderr: Duplex;
}

/** "forwarded-tcpip" of RFC 4254 section 7.2. */
export interface Visitor {
  srcIP: string;
  srcPort: number;
}

export interface Client {
  on(event: "ready" | "close", listener: () => void): this;
  on(event: "error", listener: (error: Error & { level?: string }) => void): this;
  on(
    event: "tcp connection",
    listener: (visitor: Visitor, accept: () => Channel, reject: () => void) => void,
  ): this;
  connect(options: ConnectOptions): void;
  forwardIn(
    host: string,
    port: number,
    done: (error: Error | undefined, port: number) => void,
  ): void;
  shell(pty: false, done: (error: Error | undefined, channel: Channel) => void): void;
  end(): void;
  destroy(): void;
  /** Listening ports by "host:port", for which connections are accepted; not part of ssh2's documented interface. */
  _forwarding: Record<string, number>;
}

export type AuthMethod =
  | { type: "none"; username: string }
  | { type: "publickey"; username: string; key: ParsedKey };

export interface ConnectOptions {
  sock: Socket;
  username: string;
  readyTimeout: number;
  keepaliveInterval: number;
  keepaliveCountMax: number;
  algorithms: { serverHostKey: string[] };
  hostVerifier: (key: Uint8Array) => boolean;
  authHandler: (
    left: unknown,
    partial: unknown,
    next: (method: AuthMethod | false) => void,
  ) => void;
}

export async function newClient(): Promise<Client> {
  const { default: ssh2 } = await import("ssh2");
  return new ssh2.Client() as Client;
}

/**
 * Accepts connections by port alone. Relays name their listening address in their own way, and ssh2 refuses a
 * connection whose address differs from the requested one.
 */
export function takeByPort(client: Client, port: number): void {
  client._forwarding = new Proxy({}, {
    get: (_, name) =>
      typeof name === "string" && /:(\d+)$/.exec(name)?.[1] === String(port) ? port : undefined,
  });
}
