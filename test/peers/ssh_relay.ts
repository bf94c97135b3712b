/** An SSH server in this process that listens for who logs in: a relay of tunnels, made of ssh2. */
import { Buffer } from "node:buffer";
import type { Duplex } from "node:stream";
import type { Socket } from "node:net";
import ssh2 from "ssh2";

export interface RelayOptions {
  /** What a session prints. */
  prints?: string;
  /** How it names the address that a visitor came to; absent: as it was asked. */
  boundAs?: string;
  /** Lets in whoever asks. */
  open?: boolean;
}

interface Login {
  method: string;
  key?: { data: Buffer };
  accept(): void;
  reject(methods?: string[]): void;
}

interface Forwarding {
  bindAddr: string;
  bindPort: number;
}

interface Connection {
  on(event: string, listener: (...args: never[]) => void): Connection;
  forwardOut(
    host: string,
    port: number,
    from: string,
    fromPort: number,
    done: (error: Error | undefined, channel: Visit) => void,
  ): void;
  end(): void;
  _sock: Socket;
}

export interface KeyPair {
  private: string;
  public: string;
}

interface Utils {
  generateKeyPairSync(type: string, options: object): KeyPair;
  parseKey(text: string): { getPublicSSH(): Buffer } | Error;
}

const utils = ssh2.utils as Utils;

export function newKey(type: "ed25519" | "ecdsa" = "ed25519"): KeyPair {
  for (;;) {
    const key = utils.generateKeyPairSync(type, type === "ecdsa" ? { bits: 256 } : {});
    // One in some hundred is written without its leading zeros.
    if (!(utils.parseKey(key.private) instanceof Error)) return key;
  }
}

/** `eof` ends what is sent; `end` would end the whole at once. */
export type Visit = Duplex & { eof(): void };

export interface Relay extends AsyncDisposable {
  readonly port: number;
  /** `ssh-ed25519 AAAA…` */
  readonly hostKey: string;
  readonly user: KeyPair;
  /** Ports that somebody asked for and got, by connection: the last one is the newest. */
  readonly forwarded: readonly Forwarding[];
  /** Ports that are refused. */
  readonly taken: Set<number>;
  /** Ends the connections that there are. */
  drop(): void;
  /** Logs in nobody any more. */
  close(): void;
  /** A visitor's connection through the newest tunnel. */
  visit(): Promise<Visit>;
}

const FIRST_PORT = 41_000;

export async function startRelay(options: RelayOptions = {}): Promise<Relay> {
  const host = newKey();
  const user = newKey();
  const known = (utils.parseKey(user.public) as { getPublicSSH(): Buffer }).getPublicSSH();
  const connections = new Set<Connection>();
  const forwarded: (Forwarding & { connection: Connection })[] = [];
  const taken = new Set<number>();
  let closed = false;
  let next = FIRST_PORT;
  const server = new ssh2.Server({ hostKeys: [host.private] }, (connection: Connection) => {
    connections.add(connection);
    connection.on("error", () => {/* its closing says it */});
    connection.on("close", () => {
      connections.delete(connection);
      const kept = forwarded.filter((one) => one.connection !== connection);
      forwarded.splice(0, forwarded.length, ...kept);
    });
    connection.on("authentication", (login: Login) => {
      const good = !closed && (options.open ||
        login.method === "publickey" && known.equals(Buffer.from(login.key!.data)));
      if (good) login.accept();
      else login.reject(["publickey"]);
    });
    connection.on(
      "request",
      (
        accept: (port?: number) => void,
        reject: () => void,
        name: string,
        { bindAddr, bindPort }: Forwarding,
      ) => {
        if (name !== "tcpip-forward" || taken.has(bindPort)) return reject?.();
        const port = bindPort === 0 ? next++ : bindPort;
        forwarded.push({ bindAddr, bindPort: port, connection });
        accept?.(bindPort === 0 ? port : undefined);
      },
    );
    connection.on("session", (accept: () => Connection) => {
      accept().on("shell", (start: () => Duplex) => void start().write(options.prints ?? ""));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    port: server.address().port,
    hostKey: host.public.trim(),
    user,
    forwarded,
    taken,
    drop() {
      for (const connection of connections) connection._sock.destroy();
    },
    close() {
      closed = true;
    },
    visit() {
      const { connection, bindAddr, bindPort } = forwarded.at(-1)!;
      return new Promise((resolve, reject) =>
        connection.forwardOut(
          options.boundAs ?? bindAddr,
          bindPort,
          "192.0.2.1",
          5000,
          (error, channel) => error ? reject(error) : resolve(channel),
        )
      );
    },
    async [Symbol.asyncDispose]() {
      const over = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const connection of connections) connection._sock.destroy();
      await over;
    },
  };
}
