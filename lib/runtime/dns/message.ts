/**
 * DNS messages (RFC 1035 section 4) by `dns-packet`, as far as a resolver for containers needs them: it reads
 * one question and answers addresses and names. Forwarded messages are passed on unchanged.
 */
import { Buffer } from "node:buffer";
import dns from "dns-packet";
import { formatAddress6 } from "../../base/address6.ts";

export const RecordType = { A: 1, PTR: 12, AAAA: 28 } as const;
export const Rcode = {
  noError: 0,
  formatError: 1,
  serverFailure: 2,
  nameError: 3,
  notImplemented: 4,
} as const;

const HEADER = 12;
const CLASS_IN = 1;
const RESPONSE = 0x8000;
const OPCODE = 0x7800;

export interface Question {
  /** Lower case, without the last dot; "" is the root. A dot inside a label is "\.". */
  name: string;
  type: number;
  /** False for a class other than IN. */
  internet: boolean;
}

export interface Query {
  id: number;
  opcode: number;
  /** Absent where the message does not have exactly one readable question. */
  question?: Question;
  /** Where the question ends. */
  end: number;
}

export interface Reply {
  rcode?: number;
  authoritative?: boolean;
  /** Addresses of either family; each is a record of its own type. */
  addresses?: readonly string[];
  /** Names that an address has. */
  names?: readonly string[];
}

const u16 = (bytes: Uint8Array, at: number) => bytes[at] << 8 | bytes[at + 1];

/** The question's name and where it ends. Only the question is read: a hostile rest could take long to read. */
function readName(bytes: Uint8Array): { name: string; end: number } | undefined {
  try {
    // "mail": a dot inside a label is "\\.".
    const name: string = dns.name.decode(Buffer.from(bytes), HEADER, { mail: true });
    return { name: name === "." ? "" : name.toLowerCase(), end: HEADER + dns.name.decode.bytes };
  } catch {
    return undefined; // cut, too long, or no name
  }
}

/** Undefined for a message that is not a query: it gets no answer. Never throws. */
export function readQuery(bytes: Uint8Array): Query | undefined {
  if (bytes.length < HEADER || bytes[2] & 0x80) return undefined;
  const query = { id: u16(bytes, 0), opcode: (u16(bytes, 2) & OPCODE) >> 11, end: HEADER };
  if (u16(bytes, 4) !== 1) return query;
  const read = readName(bytes);
  if (!read || read.end + 4 > bytes.length) return query;
  return {
    ...query,
    question: {
      name: read.name,
      type: u16(bytes, read.end),
      internet: u16(bytes, read.end + 2) === CLASS_IN,
    },
    end: read.end + 4,
  };
}

/** A record for the question's name, which a pointer into the question stands for. */
function record(type: "A" | "AAAA" | "PTR", data: string): Uint8Array {
  const bytes: Uint8Array = dns.answer.encode({ type, name: ".", ttl: 0, data });
  return Uint8Array.of(0xc0, HEADER, ...bytes.subarray(1, dns.answer.encode.bytes));
}

/**
 * The answer to a query in at most `limit` bytes. Records that do not fit are left out, and the message says
 * that it is truncated. Records have a lifetime of zero: an address may soon belong to another container.
 */
export function writeReply(
  bytes: Uint8Array,
  query: Query,
  reply: Reply,
  limit: number,
): Uint8Array<ArrayBuffer> {
  const records = [
    ...(reply.addresses ?? []).map((address) =>
      record(address.includes(":") ? "AAAA" : "A", address)
    ),
    ...(reply.names ?? []).map((name) => record("PTR", name)),
  ];
  const question = query.question ? bytes.subarray(HEADER, query.end) : new Uint8Array();
  let size = HEADER + question.length;
  const kept = records.filter((record) => (size += record.length) <= limit);
  const flags = RESPONSE | dns.RECURSION_AVAILABLE |
    (u16(bytes, 2) & (OPCODE | dns.RECURSION_DESIRED)) |
    (reply.authoritative ? dns.AUTHORITATIVE_ANSWER : 0) |
    (kept.length < records.length ? dns.TRUNCATED_RESPONSE : 0) |
    (reply.rcode ?? Rcode.noError);
  return Uint8Array.from([
    ...[bytes[0], bytes[1], flags >> 8, flags & 0xff],
    ...[0, query.question ? 1 : 0, 0, kept.length, 0, 0, 0, 0],
    ...question,
    ...kept.flatMap((record) => [...record]),
  ]);
}

/** True where `answer` belongs to the query: a forged or unrelated answer does not. */
export function answers(answer: Uint8Array, asked: Uint8Array, query: Query): boolean {
  if (answer.length < query.end || !(answer[2] & 0x80)) return false;
  if (answer[0] !== asked[0] || answer[1] !== asked[1] || u16(answer, 4) !== 1) return false;
  for (let at = HEADER; at < query.end; at++) if (answer[at] !== asked[at]) return false;
  return true;
}

/** A copy with another id. */
export function withId(bytes: Uint8Array, id: number): Uint8Array<ArrayBuffer> {
  const copy = Uint8Array.from(bytes);
  copy[0] = id >> 8;
  copy[1] = id & 0xff;
  return copy;
}

/**
 * The address that a name of the reverse tree stands for: "2.0.4.10.in-addr.arpa" is 10.4.0.2. IPv6 has its 32 digits
 * below ip6.arpa (RFC 3596 section 2.5).
 */
export function reverseAddress(name: string): string | undefined {
  const match = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.in-addr\.arpa$/.exec(name);
  if (match) return match.slice(1).reverse().join(".");
  const digits = /^((?:[0-9a-f]\.){32})ip6\.arpa$/.exec(name)?.[1].split(".").reverse().join("");
  return digits && formatAddress6(BigInt(`0x${digits}`));
}
