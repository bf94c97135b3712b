/**
 * Mode transparent: rules in the workload's own network namespace lead all its TCP connections to the relay, and its
 * look-ups to a resolver that answers with stand-ins. The workload cannot change the rules, and behind them is the
 * wall of mode proxy: what they do not lead here goes nowhere.
 */
import { isIP } from "node:net";
import { runOk } from "../../base/process.ts";
import { egressHost } from "../../egress/policy.ts";
import type { EgressListener } from "../../egress/relay.ts";
import { StandIns } from "../../egress/stand_ins.ts";
import {
  type Question,
  Rcode,
  readQuery,
  RecordType,
  type Reply,
  reverseAddress,
  writeReply,
} from "../../runtime/dns/message.ts";
import { DatagramsWithin, ListenerWithin } from "../../wire/listen_within.ts";

/** Bytes of an answer (RFC 1035 section 4.2.1). */
const DATAGRAM = 512;

/** Connections to the workload's own addresses stay its own. */
const rules = (tcp: number, dns: number) =>
  [
    "*nat",
    ...["PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"].map((chain) => `:${chain} ACCEPT [0:0]`),
    `-A OUTPUT -p udp --dport 53 -j REDIRECT --to-ports ${dns}`,
    `-A OUTPUT -p tcp -m addrtype ! --dst-type LOCAL -j REDIRECT --to-ports ${tcp}`,
    "COMMIT",
    "",
  ].join("\n");

/** An address that is nobody's (RFC 7600), for a workload that has none but its loopback's. */
const OWN_ADDRESS = "192.0.0.8";

/**
 * A workload on no network has no route, and its connections would fail before a rule leads them. A route to its own
 * loopback leads nowhere but there.
 */
async function giveRoute(path: string, attempted: string): Promise<void> {
  const ip = (...args: string[]) =>
    runOk(attempted, "nsenter", [`--net=${path}`, "ip", "-4", ...args]);
  const { stdout } = await ip("route", "show", "default");
  if (stdout.length > 0) return;
  await ip("address", "replace", `${OWN_ADDRESS}/32`, "dev", "lo");
  await ip("route", "replace", "default", "dev", "lo", "src", OWN_ADDRESS);
}

/** What a look-up is answered. Every name has an address: whether it may be reached is decided then. */
export function answerOf(question: Question, standIns: StandIns): Reply {
  if (!question.internet) return { rcode: Rcode.notImplemented };
  const { name, type } = question;
  if (type === RecordType.PTR) {
    const found = standIns.nameOf(reverseAddress(name) ?? "");
    return found === undefined ? { rcode: Rcode.nameError } : { names: [found] };
  }
  const host = egressHost(name);
  if (host === undefined || host !== name || isIP(host) !== 0) return { rcode: Rcode.nameError };
  // Names have IPv4 addresses alone, and no records of other kinds are known.
  return { addresses: type === RecordType.A ? [standIns.addressOf(host)] : [] };
}

/** The answer to a datagram; undefined for what is no query. */
export function replyTo(
  bytes: Uint8Array,
  standIns: StandIns,
): Uint8Array<ArrayBuffer> | undefined {
  const query = readQuery(bytes);
  if (!query) return undefined;
  const reply = query.opcode !== 0
    ? { rcode: Rcode.notImplemented }
    : query.question
    ? answerOf(query.question, standIns)
    : { rcode: Rcode.formatError };
  return writeReply(bytes, query, reply, DATAGRAM);
}

/** Answers until the socket is closed. Never throws. */
async function resolve(socket: DatagramsWithin, standIns: StandIns): Promise<void> {
  for (let got = await socket.receive(); got; got = await socket.receive()) {
    try {
      const reply = replyTo(got.bytes, standIns);
      if (reply) socket.send(reply, got.from);
    } catch {
      // A question that cannot be answered: its asker sees no answer.
    }
  }
}

/**
 * Listens in the namespace, and has the kernel lead the workload's connections here. Throws `SystemError` where the
 * port is in use there.
 */
export async function transparentListener(
  { path, instance, port }: { path: string; instance: string; port: number },
): Promise<EgressListener> {
  const standIns = new StandIns();
  const listener = new ListenerWithin(path, port);
  let dns: DatagramsWithin | undefined;
  const close = () => {
    listener.close();
    dns?.close();
  };
  try {
    dns = new DatagramsWithin(path);
    void resolve(dns, standIns);
    const attempted = `Cannot lead the connections of ${instance}`;
    await giveRoute(path, attempted);
    await runOk(attempted, "nsenter", [
      ...[`--net=${path}`, "iptables-restore", "-w"],
    ], { stdin: rules(listener.port, dns.port) });
  } catch (error) {
    close();
    throw error;
  }
  return {
    close,
    async accept() {
      const redirected = await listener.accept();
      if (!redirected) throw new Error("the listener is closed");
      const { stream, to: { address, port } } = redirected;
      return { stream, target: { host: standIns.nameOf(address) ?? address, port } };
    },
  };
}
