/** Forwards queries to the host's resolvers, one after the other, with a time limit. */
import { createSocket } from "node:dgram";
import { isIPv6 } from "node:net";
import { answers, type Query, withId } from "./message.ts";
import { readMessage, writeMessage } from "./tcp.ts";

export type Transport = "udp" | "tcp";

export interface Upstream {
  address: string;
  /** Default 53. */
  port?: number;
}

/** The host's own resolvers, those on its loopback too, without the excepted addresses. */
export async function hostUpstreams(except: ReadonlySet<string>): Promise<Upstream[]> {
  const text = await Deno.readTextFile("/etc/resolv.conf").catch(() => "");
  return nameservers(text).filter((address) => !except.has(address)).map((address) => ({
    address,
  }));
}

/** Addresses that a resolv.conf names. */
export function nameservers(text: string): string[] {
  return text.split("\n").flatMap((line) => {
    const [keyword, address] = line.trim().split(/\s+/);
    return keyword === "nameserver" && address ? [address] : [];
  });
}

/** Milliseconds that one resolver may take, and how often all of them are asked. */
const PATIENCE = 3000;
const ROUNDS = 2;
/** Queries that may be under way; further ones fail at once. */
const MOST = 256;

/** Uses a new socket and id for each query, so that nobody can guess which answer is awaited. */
function askUdp(
  { address, port = 53 }: Upstream,
  message: Uint8Array,
  query: Query,
  signal: AbortSignal,
): Promise<Uint8Array> {
  const socket = createSocket(isIPv6(address.split("%")[0]) ? "udp6" : "udp4");
  return new Promise<Uint8Array>((resolve, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    socket.on("error", reject);
    socket.on("message", (answer) => {
      if (answers(answer, message, query)) resolve(Uint8Array.from(answer));
    });
    // Connected, so that the kernel accepts answers from this resolver only.
    socket.connect(port, address, () => {
      socket.send(message, (error) => error ? reject(error) : undefined);
    });
  }).finally(() => socket.close());
}

async function askTcp(
  { address, port = 53 }: Upstream,
  message: Uint8Array,
  query: Query,
  signal: AbortSignal,
): Promise<Uint8Array> {
  using connection = await Deno.connect({ hostname: address, port, signal });
  const close = () => connection.close();
  signal.addEventListener("abort", close, { once: true });
  try {
    await writeMessage(connection, message);
    const answer = await readMessage(connection);
    if (answer && answers(answer, message, query)) return answer;
    throw new Error(`${address} gave no answer`);
  } finally {
    signal.removeEventListener("abort", close);
  }
}

export class Forwarder {
  #upstreams: () => Promise<Upstream[]>;
  #patience: number;
  #waiting = 0;

  /** `upstreams` is asked for each query: the host's resolvers may change. */
  constructor(upstreams: () => Promise<Upstream[]>, patience = PATIENCE) {
    this.#upstreams = upstreams;
    this.#patience = patience;
  }

  /** The first resolver's answer, over the transport of the query; undefined where none answers. */
  async ask(
    bytes: Uint8Array,
    query: Query,
    transport: Transport,
    signal: AbortSignal,
  ): Promise<Uint8Array | undefined> {
    if (this.#waiting >= MOST) return undefined;
    this.#waiting++;
    try {
      const upstreams = await this.#upstreams();
      const ask = transport === "udp" ? askUdp : askTcp;
      const [id] = crypto.getRandomValues(new Uint16Array(1));
      const message = withId(bytes, id);
      for (let round = 0; round < ROUNDS; round++) {
        for (const upstream of upstreams) {
          // Not AbortSignal.timeout: its timer would outlive an answer by seconds, and there are many queries.
          const limit = new AbortController();
          const end = () => limit.abort();
          const timer = setTimeout(end, this.#patience);
          signal.addEventListener("abort", end);
          try {
            return withId(await ask(upstream, message, query, limit.signal), query.id);
          } catch {
            if (signal.aborted) return undefined;
            // the next one is asked
          } finally {
            clearTimeout(timer);
            signal.removeEventListener("abort", end);
          }
        }
      }
      return undefined;
    } finally {
      this.#waiting--;
    }
  }
}
