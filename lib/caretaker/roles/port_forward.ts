/** The role portForward: the server's connections to ports in the network namespace that the caretaker is in. */
import type { Opened } from "../../api/caretaker.ts";
import { toProblem } from "../../api/problem.ts";
import { asSvcError, SvcError } from "../../base/errors.ts";
import type { Fields } from "../../wire/attached/session.ts";
import { datagrams } from "../../wire/datagrams.ts";
import { dialInTurn } from "../../wire/dial.ts";
import type { Duplex } from "../../wire/duplex.ts";
import { Idle } from "../../wire/idle.ts";
import { writeLine } from "../../wire/lines.ts";
import { relay } from "../../wire/relay.ts";
import type { YamuxStream } from "../../wire/yamux/stream.ts";
import { requireMembers } from "../config.ts";
import type { Settings, StartedRole } from "../role.ts";

/** Milliseconds without a datagram after which a UDP flow ends. */
const IDLE_MS = 120_000;

/**
 * Where a workload may listen: on every address or on the loopback's alone, or on its network's alone. The last is
 * asked for each connection, as networks come and go.
 */
function addresses(): string[] {
  const own = Deno.networkInterfaces()
    .filter(({ address, family }) => family === "IPv4" && !address.startsWith("127."));
  return ["127.0.0.1", ...own.map(({ address }) => address)];
}

function target({ port, protocol }: Fields): { port: number; protocol: "tcp" | "udp" } {
  if (
    Number.isInteger(port) && Number(port) > 0 && Number(port) <= 0xffff &&
    (protocol === "tcp" || protocol === "udp")
  ) return { port: Number(port), protocol };
  throw new SvcError(
    "argument_invalid",
    "Cannot connect to the workload: port or protocol is unknown",
  );
}

async function join(stream: YamuxStream, workload: Duplex, protocol: "tcp" | "udp"): Promise<void> {
  if (protocol === "tcp") return await relay(stream, workload);
  using idle = new Idle(IDLE_MS, () => workload.reset());
  await relay(datagrams(stream), workload, () => idle.touch());
}

async function dial(stream: YamuxStream, fields: Fields): Promise<void> {
  let workload: Duplex;
  try {
    const { port, protocol } = target(fields);
    // UDP does not tell who listens, so only the first address is used for it.
    workload = await dialInTurn(addresses(), 0, port, protocol);
  } catch (error) {
    await writeLine(stream, { ok: false, error: toProblem(asSvcError(error)) } satisfies Opened);
    return await stream.closeWrite();
  }
  await writeLine(stream, { ok: true } satisfies Opened);
  await join(stream, workload, fields.protocol as "tcp" | "udp").catch(
    () => {/* both were reset */},
  );
}

export function start(settings: Settings): Promise<StartedRole> {
  requireMembers(settings, "portForward", []);
  return Promise.resolve({ takes: { dial }, [Symbol.asyncDispose]: () => Promise.resolve() });
}
