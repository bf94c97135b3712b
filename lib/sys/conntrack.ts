/**
 * Removes entries from the kernel's connection table, by netlink (linux/netfilter/nfnetlink_conntrack.h). The
 * nat rules apply only to the first packet of a connection. For TCP that is right, but a UDP flow is one
 * connection as long as it goes on, and keeps its old target.
 */
import { concat } from "../base/collect.ts";
import { close } from "./fd.ts";
import { check, errno, libc } from "./libc.ts";

const AF_INET = 2;
const AF_INET6 = 10;
const AF_NETLINK = 16;
const SOCK_RAW_CLOEXEC = 3 | 0o2000000;
const NETLINK_NETFILTER = 12;
const NLM_F_REQUEST_ACK = 1 | 4;
const NLMSG_ERROR = 2;
const CT_DELETE = 1 << 8 | 2;
const NESTED = 0x8000;
const IPPROTO_UDP = 17;
const ENOENT = 2;

/** Attributes: CTA_TUPLE_REPLY, CTA_FILTER, and those inside them. */
const CTA = { reply: 2, filter: 25, ip: 1, proto: 2 };
/** Flags of the filter: the parts of the reply's tuple that must be equal. */
const COMPARE = { source: 1 << 0, protocol: 1 << 3, sourcePort: 1 << 4 };

function attribute(type: number, ...parts: Uint8Array[]): Uint8Array {
  const content = concat(parts);
  const length = 4 + content.length;
  const bytes = new Uint8Array(length + 3 & ~3);
  const view = new DataView(bytes.buffer);
  view.setUint16(0, length, true);
  view.setUint16(2, type, true);
  bytes.set(content, 4);
  return bytes;
}

function number32(value: number): Uint8Array {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value, true);
  return bytes;
}

/**
 * The message that removes UDP flows of the family whose answers come from that port, and with IPv4 from that address
 * where given. For IPv6 the kernel's filter takes every address but the given one (ctnetlink_filter_match_tuple), so
 * that flows from that port of any address are removed: those that are right are found again by the rules.
 */
export function forgetMessage(
  { ip, port }: { ip?: string; port: number },
  family: 4 | 6 = ip?.includes(":") ? 6 : 4,
): Uint8Array<ArrayBuffer> {
  const four = family === 4 && ip;
  const compare = COMPARE.protocol | COMPARE.sourcePort | (four ? COMPARE.source : 0);
  const address = new Uint8Array(ip?.split(".").map(Number) ?? []);
  const parts = [
    // Version 1: the filter compares the address family too.
    new Uint8Array([family === 6 ? AF_INET6 : AF_INET, 1, 0, 0]),
    attribute(
      CTA.reply | NESTED,
      ...(four ? [attribute(CTA.ip | NESTED, attribute(1, address))] : []),
      attribute(
        CTA.proto | NESTED,
        attribute(1, new Uint8Array([IPPROTO_UDP])),
        attribute(2, new Uint8Array([port >> 8, port & 0xff])),
      ),
    ),
    attribute(CTA.filter | NESTED, attribute(2, number32(compare))),
  ];
  const message = concat([new Uint8Array(16), ...parts]);
  const view = new DataView(message.buffer);
  view.setUint32(0, message.length, true);
  view.setUint16(4, CT_DELETE, true);
  view.setUint16(6, NLM_F_REQUEST_ACK, true);
  return message;
}

/**
 * Removes the UDP flows whose answers come from that port of that address (or of any): the current rules then
 * apply to their next packet. Throws where the kernel (before 5.8) cannot filter by the answer.
 */
export function forgetUdpFlows(answers: { ip?: string; port: number }): void {
  const { socket, send, recv } = libc();
  const fd = check(socket(AF_NETLINK, SOCK_RAW_CLOEXEC, NETLINK_NETFILTER), errno[0], "socket");
  try {
    const messages = answers.ip
      ? [forgetMessage(answers)]
      : [forgetMessage(answers, 4), forgetMessage(answers, 6)];
    for (const message of messages) {
      check(send(fd, message, BigInt(message.length), 0), errno[0], "send");
      const answer = new Uint8Array(4096);
      check(recv(fd, answer, BigInt(answer.length), 0), errno[0], "recv");
      const view = new DataView(answer.buffer);
      // An acknowledgement is an error message with the number 0. ENOENT: there was no such flow.
      const failed = view.getUint16(4, true) === NLMSG_ERROR ? -view.getInt32(16, true) : 0;
      if (failed !== 0 && failed !== ENOENT) check(-1, failed, "forget UDP flows");
    }
  } finally {
    close(fd);
  }
}
