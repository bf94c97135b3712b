/**
 * Requests of a workload to an API, with a credential that neither the workload nor the server has: the caller of the
 * session adds it and sends the request on, from its own machine.
 *
 * The server opens a stream `credential` that names the source and says `upstream`. A line with the request's head
 * comes first, and the request's body; a line with the answer's head comes back, and the answer's body.
 */
import { type Delivery } from "../api/credentials.ts";
import { SvcError } from "../base/errors.ts";
import { type Duplex, readableOf, writableOf } from "../wire/duplex.ts";
import { LineReader, writeLine } from "../wire/lines.ts";
import { oneValue } from "./credential.ts";
import type { KeptCredential } from "./kept_source.ts";

export type UpstreamDelivery = Extract<Delivery, { kind: "proxy" }>;

type Fields = [name: string, value: string][];

interface RequestHead {
  method: string;
  /** With the query, below the upstream's own path: "/user?page=2". */
  path: string;
  headers: Fields;
}

type AnswerHead = { status: number; headers: Fields } | { error: string };

/** Bytes of a head, at most. */
const MAX_HEAD = 256 * 1024;

/** What is between two neighbours alone, or is written anew. */
const OWN = new Set([
  ..."connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer"
    .split(
      " ",
    ),
  ..."transfer-encoding upgrade host content-length expect".split(" "),
]);

/** The fields that go on, without those that `connection` names. */
function passed(headers: Headers, without: readonly string[]): Fields {
  const named = (headers.get("connection") ?? "").toLowerCase().split(",").map((one) => one.trim());
  const dropped = new Set([...OWN, ...named, ...without]);
  return [...headers].filter(([name]) => !dropped.has(name.toLowerCase()));
}

const linesDuplex = (lines: LineReader, stream: Duplex): Duplex => ({
  read: () => lines.read(),
  write: (bytes) => stream.write(bytes),
  closeWrite: () => stream.closeWrite(),
  reset: (why) => stream.reset(why),
});

/** Statuses whose answers have no body. */
const NO_BODY = new Set([101, 204, 205, 304]);

const isFields = (value: unknown): value is Fields =>
  Array.isArray(value) &&
  value.every((pair) =>
    Array.isArray(pair) && pair.length === 2 && pair.every((one) => typeof one === "string")
  );

/** At the server: sends a workload's request to the caller. Throws `upstream_failed`. */
export async function throughCaller(
  stream: Duplex,
  request: Request,
  path: string,
  signal: AbortSignal,
): Promise<Response> {
  const end = () => stream.reset();
  signal.addEventListener("abort", end, { once: true });
  const headers = passed(request.headers, []);
  await writeLine(stream, { method: request.method, path, headers } satisfies RequestHead);
  const sent = request.body ? request.body.pipeTo(writableOf(stream)) : stream.closeWrite();
  sent.catch(() => {/* the answer says more: it may come before the body's end */});
  const lines = new LineReader(stream, MAX_HEAD);
  const head = Object(await lines.line<AnswerHead>());
  const { status, error } = head;
  const isAnswer = Number.isInteger(status) && status >= 200 && status < 600 &&
    isFields(head.headers);
  if (!isAnswer) {
    stream.reset();
    const why = typeof error === "string" ? error : "its answer cannot be read";
    throw new SvcError("upstream_failed", `Cannot send the request on: ${why}`);
  }
  const body = NO_BODY.has(status) ? null : readableOf(linesDuplex(lines, stream));
  return new Response(body as ReadableStream<Uint8Array<ArrayBuffer>> | null, {
    status,
    headers: head.headers,
  });
}

/** The address below the upstream's own. Throws `denied` for one that leads elsewhere. */
export function upstreamUrl(upstream: string, path: string): URL {
  const base = new URL(upstream);
  const url = path.startsWith("/") ? URL.parse(upstream + path) : null;
  const below = base.pathname.replace(/\/$/, "") + "/";
  if (url && url.origin === base.origin && !url.username && `${url.pathname}/`.startsWith(below)) {
    return url;
  }
  throw new SvcError("denied", `Cannot send the request on: its path is not below ${upstream}`);
}

export interface SendOptions {
  delivery: UpstreamDelivery;
  get(): Promise<KeptCredential>;
  /** Aborts when the session ends. */
  signal: AbortSignal;
}

async function send(head: RequestHead, body: Duplex, options: SendOptions): Promise<Response> {
  const { delivery: { upstream, header, bearer, source, valueKey }, get, signal } = options;
  const url = upstreamUrl(upstream, head.path);
  const value = oneValue(source, await get(), valueKey);
  // The workload's own field of that name does not go on, nor does a form in which we could not read the answer.
  const headers = new Headers(passed(new Headers(head.headers), [header, "accept-encoding"]));
  headers.set(header, bearer ? `Bearer ${value}` : value);
  headers.set("accept-encoding", "identity");
  const has = head.method !== "GET" && head.method !== "HEAD";
  return await fetch(url, {
    method: head.method,
    headers,
    redirect: "manual",
    signal,
    ...has && { body: readableOf(body) as ReadableStream<Uint8Array<ArrayBuffer>> },
  });
}

/** At the caller: answers one stream. What goes wrong is told without any of the credential. */
export async function serveUpstream(stream: Duplex, options: SendOptions): Promise<void> {
  const lines = new LineReader(stream, MAX_HEAD);
  let answer: Response;
  try {
    const head = await lines.line<RequestHead>();
    const { method, path, headers } = Object(head);
    if (typeof method !== "string" || typeof path !== "string" || !isFields(headers)) {
      throw new SvcError("argument_invalid", "Cannot send the request on: it cannot be read");
    }
    answer = await send({ method, path, headers }, linesDuplex(lines, stream), options);
  } catch (error) {
    if (options.signal.aborted) return stream.reset();
    // Words of others may quote the request, and so the credential.
    const why = error instanceof SvcError
      ? error.message.replace(/^Cannot send the request on: /, "")
      : `${options.delivery.upstream} is not reached from the caller's machine`;
    await writeLine(stream, { error: why } satisfies AnswerHead);
    return await stream.closeWrite();
  }
  // The body is as it was before it was compressed, so its length is another.
  const headers = passed(answer.headers, ["content-encoding"]);
  await writeLine(stream, { status: answer.status, headers } satisfies AnswerHead);
  if (answer.body) await answer.body.pipeTo(writableOf(stream));
  else await stream.closeWrite();
}
