/**
 * DNS messages (RFC 1035 section 4), as far as a resolver for containers needs them: one question is read,
 * addresses and names are answered; what is forwarded is passed on as it is.
 */

export const RecordType = { A: 1, PTR: 12 } as const;
export const Rcode = {
  noError: 0,
  formatError: 1,
  serverFailure: 2,
  nameError: 3,
  notImplemented: 4,
} as const;

const HEADER = 12;
const CLASS_IN = 1;
const FLAG = { response: 0x8000, authoritative: 0x0400, truncated: 0x0200, recursion: 0x0080 };
const OPCODE = 0x7800;
const RECURSION_DESIRED = 0x0100;
/** Longest name, with the lengths of its labels (RFC 1035 section 2.3.4). */
const LONGEST_NAME = 255;

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
  /** Absent where the message has not exactly one readable question. */
  question?: Question;
  /** Where the question ends. */
  end: number;
}

export interface Reply {
  rcode?: number;
  authoritative?: boolean;
  /** IPv4 addresses. */
  addresses?: readonly string[];
  /** Names that an address has. */
  names?: readonly string[];
}

const u16 = (bytes: Uint8Array, at: number) => bytes[at] << 8 | bytes[at + 1];

/** The name at `at` and where it ends. A question has no compressed name: nothing is before it. */
function readName(bytes: Uint8Array, at: number): { name: string; end: number } | undefined {
  const labels: string[] = [];
  const start = at;
  for (;;) {
    const length = bytes[at];
    if (length === undefined || length > 63) return undefined;
    at++;
    if (length === 0) break;
    if (at + length > bytes.length || at + length - start >= LONGEST_NAME) return undefined;
    const label = String.fromCharCode(...bytes.subarray(at, at + length));
    labels.push(label.toLowerCase().replaceAll(".", "\\."));
    at += length;
  }
  return { name: labels.join("."), end: at };
}

/** Undefined for what is no query: nothing is answered to it. Never throws. */
export function readQuery(bytes: Uint8Array): Query | undefined {
  if (bytes.length < HEADER || bytes[2] & 0x80) return undefined;
  const query = { id: u16(bytes, 0), opcode: (u16(bytes, 2) & OPCODE) >> 11, end: HEADER };
  if (u16(bytes, 4) !== 1) return query;
  const read = readName(bytes, HEADER);
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

function encodeName(name: string): number[] {
  const labels = name.split(".").filter(Boolean).map((label) => new TextEncoder().encode(label));
  return [...labels.flatMap((label) => [label.length, ...label]), 0];
}

/**
 * The answer to a query, in at most `limit` bytes: what does not fit is left out, and the message says so.
 * The records live for no time: an address may be another container's soon.
 */
export function writeReply(
  bytes: Uint8Array,
  query: Query,
  reply: Reply,
  limit: number,
): Uint8Array<ArrayBuffer> {
  const records = [
    ...(reply.addresses ?? []).map((ip) => [RecordType.A, ...ip.split(".").map(Number)]),
    ...(reply.names ?? []).map((name) => [RecordType.PTR, ...encodeName(name)]),
  ].map(([type, ...data]) => [
    ...[0xc0, HEADER, 0, type, 0, CLASS_IN, 0, 0, 0, 0],
    ...[data.length >> 8, data.length & 0xff, ...data],
  ]);
  const question = query.question ? bytes.subarray(HEADER, query.end) : new Uint8Array();
  let size = HEADER + question.length;
  const kept = records.filter((record) => (size += record.length) <= limit);
  const flags = FLAG.response | FLAG.recursion |
    (u16(bytes, 2) & (OPCODE | RECURSION_DESIRED)) |
    (reply.authoritative ? FLAG.authoritative : 0) |
    (kept.length < records.length ? FLAG.truncated : 0) |
    (reply.rcode ?? Rcode.noError);
  return Uint8Array.from([
    ...[bytes[0], bytes[1], flags >> 8, flags & 0xff],
    ...[0, query.question ? 1 : 0, 0, kept.length, 0, 0, 0, 0],
    ...question,
    ...kept.flat(),
  ]);
}

/** True where `answer` is one to what was asked: not another's, and not made up by somebody else. */
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

/** The address that a name of the reverse tree stands for: "2.0.4.10.in-addr.arpa" is 10.4.0.2. */
export function reverseAddress(name: string): string | undefined {
  const match = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.in-addr\.arpa$/.exec(name);
  return match?.slice(1).reverse().join(".");
}
