/**
 * The links of this thread's network namespace, by netlink (linux/rtnetlink.h): sysfs shows those of the namespace in
 * which it was mounted.
 */
import { close } from "./fd.ts";
import { check, errno, libc } from "./libc.ts";

const AF_NETLINK = 16;
const SOCK_RAW_CLOEXEC = 3 | 0o2000000;
const NETLINK_ROUTE = 0;
const NLM_F_REQUEST_DUMP = 1 | 0x300;
const NLMSG_ERROR = 2;
const NLMSG_DONE = 3;
const RTM_NEWLINK = 16;
const RTM_GETLINK = 18;
/** Bytes of the headers of a message, and of what it says of a link before the attributes. */
const [HEADER, LINK] = [16, 16];
/** Attributes, and one within the last of them. */
const IFLA = { name: 3, master: 10, info: 18, mask: 29, kind: 1 };
const RTEXT_FILTER_SKIP_STATS = 1 << 3;
/** The kernel makes the next answer while the one before is read: nobody waits for it, which would stop this thread. */
const MSG_DONTWAIT = 0x40;
/** The kernel makes its answers no larger. */
const ANSWER_BYTES = 32 * 1024;

export interface Link {
  index: number;
  name: string;
  /** "bridge", "veth"…; undefined: a device, or the loopback interface. */
  kind?: string;
  /** Index of the link that it is a port of. */
  master?: number;
}

const padded = (length: number) => length + 3 & ~3;

function* attributes(bytes: Uint8Array): Generator<[type: number, content: Uint8Array]> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 0; at + 4 <= bytes.length;) {
    const length = view.getUint16(at, true);
    if (length < 4) return;
    yield [view.getUint16(at + 2, true) & 0x3fff, bytes.subarray(at + 4, at + length)];
    at += padded(length);
  }
}

const number32 = (bytes: Uint8Array) =>
  new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes).replace(/\0.*$/s, "");

function linkOf(bytes: Uint8Array): Link {
  const link: Link = { index: number32(bytes.subarray(4)), name: "" };
  for (const [type, content] of attributes(bytes.subarray(LINK))) {
    if (type === IFLA.name) link.name = text(content);
    else if (type === IFLA.master) link.master = number32(content);
    else if (type === IFLA.info) {
      for (const [inner, kind] of attributes(content)) {
        if (inner === IFLA.kind) link.kind = text(kind);
      }
    }
  }
  return link;
}

/** The links in an answer; `done`: no further one comes. */
export function linksIn(answer: Uint8Array): { links: Link[]; done: boolean } {
  const view = new DataView(answer.buffer, answer.byteOffset, answer.byteLength);
  const links: Link[] = [];
  for (let at = 0; at + HEADER <= answer.length;) {
    const [length, type] = [view.getUint32(at, true), view.getUint16(at + 4, true)];
    if (type === NLMSG_DONE) return { links, done: true };
    if (type === NLMSG_ERROR) check(-1, -view.getInt32(at + HEADER, true), "list links");
    if (type === RTM_NEWLINK) links.push(linkOf(answer.subarray(at + HEADER, at + length)));
    at += padded(Math.max(length, HEADER));
  }
  return { links, done: false };
}

/** Throws `SystemError`, and `unsupported` on a system without netlink. */
export function links(): Link[] {
  const { socket, send, recv } = libc();
  const fd = check(socket(AF_NETLINK, SOCK_RAW_CLOEXEC, NETLINK_ROUTE), errno[0], "socket");
  try {
    const question = new Uint8Array(HEADER + LINK + 8);
    const view = new DataView(question.buffer);
    view.setUint32(0, question.length, true);
    view.setUint16(4, RTM_GETLINK, true);
    view.setUint16(6, NLM_F_REQUEST_DUMP, true);
    // Counters are most of an answer, and not asked for.
    view.setUint16(HEADER + LINK, 8, true);
    view.setUint16(HEADER + LINK + 2, IFLA.mask, true);
    view.setUint32(HEADER + LINK + 4, RTEXT_FILTER_SKIP_STATS, true);
    check(send(fd, question, BigInt(question.length), 0), errno[0], "send");
    const all: Link[] = [];
    for (const answer = new Uint8Array(ANSWER_BYTES);;) {
      const length = check(recv(fd, answer, BigInt(answer.length), MSG_DONTWAIT), errno[0], "recv");
      const { links, done } = linksIn(answer.subarray(0, length));
      all.push(...links);
      if (done) return all;
    }
  } finally {
    close(fd);
  }
}
