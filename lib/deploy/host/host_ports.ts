/** Published ports of a host: finds free ports, and explains conflicts. */
import { createSocket } from "node:dgram";
import { SvcError, systemCode } from "../../base/errors.ts";
import type { PortSpec } from "../../api/deploy_spec.ts";
import type { PublishedPort } from "../../api/deployment.ts";

const ANY = new Set(["0.0.0.0", "::"]);

/** What a port without an address has: "::" is every address of both families. */
export type Everywhere = "0.0.0.0" | "::";

const sameAddress = (a: string, b: string) => a === b || ANY.has(a) && ANY.has(b);

/** True where both cannot be published at the same time. */
export function collide(a: PublishedPort, b: PublishedPort): boolean {
  return a.host === b.host && a.protocol === b.protocol &&
    (a.hostIP === b.hostIP || ANY.has(a.hostIP) || ANY.has(b.hostIP));
}

function refusal(port: PublishedPort, why: string, cause?: unknown): SvcError {
  const host = port.hostIP.includes(":") ? `[${port.hostIP}]` : port.hostIP;
  return new SvcError("port_in_use", `Cannot publish ${host}:${port.host}: ${why}`, { cause });
}

function inWords(error: unknown): string {
  const code = (error as { code?: string }).code;
  if (code === "EADDRINUSE" || error instanceof Deno.errors.AddrInUse) return "address in use";
  if (code === "EADDRNOTAVAIL" || error instanceof Deno.errors.AddrNotAvailable) {
    return "this host has no such address";
  }
  return (error as Error).message;
}

/** Binds a port and releases it; returns its number. */
async function probe(port: PublishedPort): Promise<number> {
  if (port.protocol === "udp") {
    const socket = createSocket(port.hostIP.includes(":") ? "udp6" : "udp4");
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    socket.once("error", reject);
    socket.bind(
      { port: port.host, address: port.hostIP, exclusive: true },
      () => resolve(socket.address().port),
    );
    try {
      return await promise;
    } finally {
      // The port is free only after the close: the next probe may be for the same port.
      await new Promise<void>((closed) => socket.close(() => closed()));
    }
  }
  // Closed by hand: the bundler's minifier drops a `using` whose variable is used once.
  const listener = Deno.listen({ hostname: port.hostIP, port: port.host });
  try {
    return listener.addr.port;
  } finally {
    listener.close();
  }
}

/** `holds`: this server itself listens there, for the deployment. Throws `port_in_use` where a process of this host, or another deployment, has the port. */
export async function requireFree(
  ports: readonly PublishedPort[],
  taken: readonly { port: PublishedPort; by: string }[],
  holds: (port: PublishedPort) => boolean = () => false,
): Promise<void> {
  for (const [index, port] of ports.entries()) {
    const other = taken.find((entry) => collide(entry.port, port));
    if (other) throw refusal(port, `address in use by deployment ${other.by}`);
    if (ports.slice(0, index).some((earlier) => collide(earlier, port))) {
      throw refusal(port, "it is published twice in the spec");
    }
    if (port.protocol === "sctp" || holds(port)) continue;
    try {
      await probe(port);
    } catch (error) {
      throw refusal(port, inWords(error), error);
    }
  }
}

/**
 * The range of ports to choose from. No socket holds a published port, so the kernel could give one of its
 * ephemeral ports to another program, whose connections would then end at the workload. The range ends where
 * Kubernetes' begins.
 */
const OPEN_PORTS = { from: 20_000, to: 30_000 };
const ATTEMPTS = 64;

/** The first port of the kernel's ephemeral range. */
async function firstEphemeral(): Promise<number> {
  try {
    return parseInt(await Deno.readTextFile("/proc/sys/net/ipv4/ip_local_port_range"));
  } catch {
    // Not Linux: ports are not published by firewall rules there.
    return 0;
  }
}

/** A free port; `isTaken` reports published ports, which no socket holds. */
async function openPort(
  port: PublishedPort,
  isTaken: (candidate: PublishedPort) => boolean,
): Promise<number> {
  const { from } = OPEN_PORTS;
  const count = Math.min(OPEN_PORTS.to, await firstEphemeral()) - from;
  for (let left = count > 0 ? ATTEMPTS : 0; left > 0; left--) {
    const candidate = { ...port, host: from + Math.floor(Math.random() * count) };
    if (isTaken(candidate)) continue;
    try {
      return await probe(candidate);
    } catch (error) {
      if (!(error instanceof Deno.errors.AddrInUse) && systemCode(error) !== "EADDRINUSE") {
        throw error;
      }
    }
  }
  return await probe(port);
}

export interface PortsSoFar {
  /** The deployment's own ports: an open port keeps its number across a replacement. */
  before?: readonly PublishedPort[];
  /** The address of a port that names none; absent: every IPv4 address. */
  everywhere?: Everywhere;
  /** Ports of other deployments. */
  taken?: readonly { port: PublishedPort }[];
}

/** Fills in ports that the spec leaves open: every address, and a free port where no number is given. */
export async function choosePorts(
  ports: readonly PortSpec[],
  { before = [], taken = [], everywhere = "0.0.0.0" }: PortsSoFar = {},
): Promise<PublishedPort[]> {
  const chosen: PublishedPort[] = [];
  for (const { host, container, protocol, hostIP = everywhere } of ports) {
    const port = { hostIP, host: host ?? 0, container, protocol };
    if (!port.host) {
      const isTaken = (candidate: PublishedPort) =>
        [...chosen, ...taken.map((other) => other.port)].some((other) => collide(other, candidate));
      const kept = before.find((old) =>
        old.container === container && old.protocol === protocol &&
        sameAddress(old.hostIP, hostIP) &&
        !chosen.some((other) => collide(other, { ...port, host: old.host }))
      );
      try {
        port.host = kept?.host ??
          await openPort({ ...port, protocol: protocol === "udp" ? protocol : "tcp" }, isTaken);
      } catch (error) {
        throw refusal(port, inWords(error), error);
      }
    }
    chosen.push(port);
  }
  return chosen;
}
