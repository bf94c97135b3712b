/** A resolver on one address: answers names of its zone, and forwards other queries. */
import { createSocket, type Socket } from "node:dgram";
import { once } from "node:events";
import type { Forwarder, Transport } from "./forward.ts";
import { type Question, Rcode, readQuery, type Reply, writeReply } from "./message.ts";
import { readMessage, writeMessage } from "./tcp.ts";

/** Bytes of one datagram (RFC 1035 section 4.2.1), and of one message on a stream. */
const DATAGRAM = 512;
const MESSAGE = 65535;
/** Connections at a time, and how long one may rest without a question, in milliseconds. */
const MOST_CONNECTIONS = 64;
const IDLE = 10_000;
/**
 * Queries that may wait for other resolvers, of one network and of one asker on it: who asks for what nobody answers
 * leaves room for others.
 */
const MOST_WAITING = 128;
const MOST_OF_ONE = 64;
/** Milliseconds without accepting after accepting has failed. */
const BREATH = 20;

export interface Zone {
  /** False for an address that gets no answer at all. */
  serves(from: string): boolean;
  /** "forward": other resolvers are asked. */
  resolve(question: Question, from: string): Reply | "forward";
}

export interface DnsServerOptions {
  hostname: string;
  /** 0: a port that is free for both transports. */
  port: number;
  zone: Zone;
  forwarder: Forwarder;
}

export class DnsServer implements AsyncDisposable {
  readonly hostname: string;
  readonly port: number;
  #options: DnsServerOptions;
  #socket: Socket;
  #listener: Deno.TcpListener;
  #connections = new Set<Deno.Conn>();
  /** The askers of the queries that wait for other resolvers. */
  readonly #waiting: string[] = [];
  #end = new AbortController();

  private constructor(options: DnsServerOptions, socket: Socket, listener: Deno.TcpListener) {
    this.#options = options;
    this.#socket = socket;
    this.#listener = listener;
    this.hostname = options.hostname;
    this.port = listener.addr.port;
    socket.on("message", (message, { address, port }) => {
      this.#handle(message, address, "udp").then((answer) => {
        if (answer && !this.#end.signal.aborted) socket.send(answer, port, address, () => {});
      });
    });
    // An error about a client that has gone: the next client is served all the same.
    socket.on("error", () => {});
    this.#accept();
  }

  /** Binds both transports; throws where either is taken. */
  static async listen(options: DnsServerOptions): Promise<DnsServer> {
    const { hostname } = options;
    const listener = Deno.listen({ hostname, port: options.port });
    try {
      const socket = createSocket("udp4");
      socket.bind({ address: hostname, port: listener.addr.port });
      await once(socket, "listening");
      return new DnsServer(options, socket, listener);
    } catch (error) {
      listener.close();
      throw error;
    }
  }

  async #handle(
    bytes: Uint8Array,
    from: string,
    transport: Transport,
  ): Promise<Uint8Array<ArrayBuffer> | undefined> {
    const { zone, forwarder } = this.#options;
    const query = readQuery(bytes);
    if (!query || !zone.serves(from)) return undefined;
    const limit = transport === "udp" ? DATAGRAM : MESSAGE;
    const reply = (content: Reply) => writeReply(bytes, query, content, limit);
    if (query.opcode !== 0) return reply({ rcode: Rcode.notImplemented });
    if (!query.question) return reply({ rcode: Rcode.formatError });
    const known = zone.resolve(query.question, from);
    if (known !== "forward") return reply(known);
    const failed = () => reply({ rcode: Rcode.serverFailure });
    const waiting = this.#waiting;
    const own = waiting.filter((one) => one === from).length;
    if (own >= MOST_OF_ONE || waiting.length >= MOST_WAITING) return failed();
    waiting.push(from);
    try {
      const answer = await forwarder.ask(bytes, query, transport, this.#end.signal);
      return answer ? Uint8Array.from(answer) : failed();
    } finally {
      waiting.splice(waiting.indexOf(from), 1);
    }
  }

  async #accept(): Promise<void> {
    for (;;) {
      let connection: Deno.TcpConn;
      try {
        connection = await this.#listener.accept();
      } catch {
        if (this.#end.signal.aborted) return;
        // The connection was reset before it was accepted, or no descriptor is free.
        await new Promise((resolve) => setTimeout(resolve, BREATH));
        continue;
      }
      if (this.#connections.size >= MOST_CONNECTIONS) connection.close();
      else this.#serve(connection);
    }
  }

  async #serve(connection: Deno.TcpConn): Promise<void> {
    this.#connections.add(connection);
    const close = () => {
      if (this.#connections.delete(connection)) connection.close();
    };
    let timer = setTimeout(close, IDLE);
    try {
      for (;;) {
        const message = await readMessage(connection);
        if (!message) return;
        clearTimeout(timer);
        const answer = await this.#handle(message, connection.remoteAddr.hostname, "tcp");
        timer = setTimeout(close, IDLE);
        if (!answer) return;
        await writeMessage(connection, answer);
      }
    } catch {
      // The client went away.
    } finally {
      clearTimeout(timer);
      close();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#end.signal.aborted) return;
    this.#end.abort();
    this.#listener.close();
    for (const connection of this.#connections) connection.close();
    this.#connections.clear();
    const closed = once(this.#socket, "close");
    this.#socket.close();
    await closed;
  }
}
