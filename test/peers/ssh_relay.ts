/** An SSH server in this process that listens for who logs in: a relay of tunnels, made of ssh2. */
import { Buffer } from "node:buffer";
import { generateKeyPairSync } from "node:crypto";
import type { Duplex } from "node:stream";
import type { Socket } from "node:net";
import ssh2 from "ssh2";
import { string, uint32 } from "../../lib/wire/ssh/packing.ts";

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

/**
 * An ed25519 key in OpenSSH's form. Written here: ssh2's own generator leaves out leading zeros, and one key
 * in a hundred is none.
 */
export function newKey(): KeyPair {
  const { d, x } = generateKeyPairSync("ed25519").privateKey.export({ format: "jwk" });
  const point = Buffer.from(x!, "base64url");
  const type = "ssh-ed25519";
  const blob = Buffer.concat([string(type), string(point)]);
  const secret = Buffer.concat([
    ...[uint32(7), uint32(7), blob],
    ...[string(Buffer.concat([Buffer.from(d!, "base64url"), point])), string("")],
  ]);
  const padding = Buffer.from([1, 2, 3, 4, 5, 6, 7]).subarray(0, (8 - secret.length % 8) % 8);
  const whole = Buffer.concat([
    ...[Buffer.from("openssh-key-v1\0"), string("none"), string("none"), string("")],
    ...[uint32(1), string(blob), string(Buffer.concat([secret, padding]))],
  ]);
  const lines = whole.toString("base64").match(/.{1,70}/g)!.join("\n");
  return {
    private: `-----BEGIN OPENSSH PRIVATE KEY-----\n${lines}\n-----END OPENSSH PRIVATE KEY-----\n`,
    public: `${type} ${blob.toString("base64")}`,
  };
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
  const known = Buffer.from(user.public.split(" ")[1], "base64");
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
    hostKey: host.public,
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
