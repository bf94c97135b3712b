/** One request and its answer. */
import { Buffer } from "node:buffer";
import type { IngressRoute } from "../api/ingress.ts";
import { SvcError } from "../base/errors.ts";
import type { Duplex } from "../wire/duplex.ts";
import { endToEnd, type Fields, requestFields, valuesOf } from "./fields.ts";
import {
  HeadError,
  parseResponseHead,
  renderHead,
  type RequestHead,
  responseFraming,
  type ResponseHead,
} from "./head.ts";
import { Body } from "./inlet.ts";
import type { Arrival, IngressProxyOptions, ProxyLimits } from "./interface.ts";
import {
  answerRefusal,
  dialRefusal,
  type Refusal,
  renderRefusal,
  TooLate,
  Unanswered,
} from "./refusal.ts";
import { Side } from "./side.ts";
import { switchOver } from "./switch_over.ts";

/** Methods whose requests may be repeated without harm (RFC 9110 9.2.1). */
const SAFE = new Set(["GET", "HEAD", "OPTIONS"]);
/** Interim answers, such as "103 Early Hints", before one final answer. */
const MAX_INTERIM = 32;
/**
 * Bytes of a request's body that are read and dropped, so that a client that still sends sees its early answer.
 */
const MAX_DROPPED = 1024 ** 2;

const CRLF = Buffer.from("\r\n");
const LAST_CHUNK = Buffer.from("0\r\n\r\n");

export interface ExchangeContext {
  client: Side;
  arrival: Arrival;
  route: IngressRoute;
  dial: IngressProxyOptions["dial"];
  limits: ProxyLimits;
  /** True when the connection takes no further request. */
  last: () => boolean;
  /** Called when the connection switches to another protocol. */
  switched: () => void;
}

export interface Outcome {
  /** True where another request may follow on the connection. */
  keep: boolean;
  status: number;
  /** The error of an exchange that failed, for the log. */
  error?: unknown;
}

/** The bytes of `data` on the wire, as they are or as a chunk; `last` adds the end of the chunks. */
function encoded(data: Uint8Array, chunked: boolean, last: boolean): Uint8Array[] {
  if (!chunked) return data.length > 0 ? [data] : [];
  const parts: Uint8Array[] = [];
  if (data.length > 0) parts.push(Buffer.from(`${data.length.toString(16)}\r\n`), data, CRLF);
  if (last) parts.push(LAST_CHUNK);
  return parts;
}

function joined(parts: Uint8Array[]): Uint8Array {
  return parts.length === 1 ? parts[0] : Buffer.concat(parts);
}

export class Exchange {
  /** Resolves when the request's body is no longer read; never rejects. */
  sending: Promise<void> = Promise.resolve();
  #context: ExchangeContext;
  #request: RequestHead;
  #body: Body;
  #up: Side | undefined;
  /** The whole request was sent to the workload. */
  #sent = false;
  /** Status of the final answer, once its head is on its way to the client. */
  #status: number | undefined;
  #failure: { refusal: Refusal } | { error: unknown } | undefined;
  #gone = new AbortController();

  constructor(request: RequestHead, context: ExchangeContext) {
    this.#request = request;
    this.#context = context;
    this.#body = new Body(context.client.inlet, request.framing);
  }

  get route(): IngressRoute {
    return this.#context.route;
  }

  /**
   * Throws where the client has gone, and where only a broken connection can tell the client that its answer is
   * incomplete.
   */
  async run(): Promise<Outcome> {
    const { method, framing } = this.#request;
    if (framing.kind === "none") this.#watch();
    const repeatable = framing.kind === "none" && SAFE.has(method);
    for (let left = repeatable ? 1 : 0;; left--) {
      let connected = false;
      try {
        this.#up = new Side(await this.#connect(), this.#context.limits.stallMs);
        connected = true;
        // The client may have left just now, before anything ended its connection.
        this.#gone.signal.throwIfAborted();
        return await this.#answer(this.#up);
      } catch (error) {
        const cause = this.#failure && "error" in this.#failure ? this.#failure.error : error;
        if (this.#gone.signal.aborted || this.#status !== undefined) throw cause;
        const silent = connected && !this.#up!.inlet.touched && this.#failure === undefined;
        if (silent && left > 0) continue;
        return await this.#refuse(cause, connected);
      } finally {
        this.#up?.end();
      }
    }
  }

  #watch(): void {
    this.#context.client.inlet.watch(() => this.#leave());
  }

  #leave(): void {
    this.#gone.abort(new SvcError("cancelled", "Cannot answer: the client has gone"));
    this.#up?.end();
  }

  async #connect(): Promise<Duplex> {
    try {
      return await this.#dial();
    } catch (error) {
      // While one instance replaces another, the second attempt reaches the new instance.
      const again = error instanceof SvcError && error.code === "upstream_failed";
      if (!again || this.#gone.signal.aborted) throw error;
      return await this.#dial();
    }
  }

  async #dial(): Promise<Duplex> {
    const { dial, route, limits } = this.#context;
    const { signal: gone } = this.#gone;
    gone.throwIfAborted();
    const abort = new AbortController();
    const lost = Promise.withResolvers<never>();
    const stop = (reason: unknown) => {
      abort.abort(reason);
      lost.reject(reason);
    };
    const onGone = () => stop(gone.reason);
    gone.addEventListener("abort", onGone, { once: true });
    const timer = setTimeout(() => stop(new TooLate("no connection in time")), limits.dialMs);
    const dialed = (async () => await dial(route, abort.signal))();
    try {
      return await Promise.race([dialed, lost.promise]);
    } catch (error) {
      dialed.then((late) => late.reset(), () => {/* told already */});
      throw error;
    } finally {
      clearTimeout(timer);
      gone.removeEventListener("abort", onGone);
    }
  }

  async #refuse(error: unknown, connected: boolean): Promise<Outcome> {
    const { client, route, last } = this.#context;
    const { method, keepAlive, framing } = this.#request;
    const refusal = this.#failure && "refusal" in this.#failure
      ? this.#failure.refusal
      : connected
      ? answerRefusal(error, route.deployment)
      : dialRefusal(error, route.deployment, route.port);
    const keep = keepAlive && framing.kind === "none" && !last();
    await client.write(renderRefusal(refusal, { method, close: !keep }));
    return { keep, status: refusal.status, error };
  }

  #head(): Uint8Array {
    const { method, target, authority, fields, framing, expects, upgrade } = this.#request;
    const { arrival } = this.#context;
    const sent: Fields = [["Host", arrival.as?.rewrite ? arrival.as.host : authority]];
    sent.push(...requestFields(fields, authority, arrival));
    if (framing.kind === "length") sent.push(["Content-Length", String(framing.length)]);
    if (framing.kind === "chunked") sent.push(["Transfer-Encoding", "chunked"]);
    if (expects) sent.push(["Expect", "100-continue"]);
    if (upgrade !== undefined) sent.push(["Upgrade", upgrade]);
    // One request per connection: bytes of one request can never be read as the start of another.
    sent.push(["Connection", upgrade === undefined ? "close" : "Upgrade"]);
    return renderHead(`${method} ${target} HTTP/1.1`, sent);
  }

  /** Sends the request to the workload while its answer is already awaited. */
  async #send(up: Side): Promise<void> {
    const { client, limits } = this.#context;
    const chunked = this.#request.framing.kind === "chunked";
    let head: Uint8Array[] = [this.#head()];
    try {
      for (;;) {
        const data = this.#body.take();
        const parts = [...head, ...encoded(data, chunked, this.#body.done)];
        head = [];
        if (parts.length > 0 && !await this.#give(up, joined(parts))) return await this.#drop();
        if (this.#body.done) break;
        await client.within(limits.stallMs, () => this.#body.fill());
      }
    } catch (error) {
      if (error instanceof HeadError) {
        this.#failure ??= { refusal: { status: 400, reason: error.message } };
        return up.end();
      }
      return this.#leave();
    }
    this.#sent = true;
    if (this.#status === undefined) up.waiting.set(limits.answerMs, () => this.#expire(up));
    if (this.#request.framing.kind !== "none") this.#watch();
  }

  async #give(up: Side, bytes: Uint8Array): Promise<boolean> {
    try {
      await up.write(bytes);
      return true;
    } catch {
      // The workload may have answered before it stopped reading: its answer decides.
      return false;
    }
  }

  #expire(up: Side): void {
    this.#failure ??= { error: new TooLate("no answer in time") };
    up.end();
  }

  /**
   * Drops the rest of the request's body: a client that sends without reading sees its answer only after that.
   */
  async #drop(): Promise<void> {
    const { client, limits } = this.#context;
    for (let left = MAX_DROPPED; left > 0 && !this.#body.done;) {
      left -= this.#body.take().length;
      if (!this.#body.done) await client.within(limits.stallMs, () => this.#body.fill());
    }
  }

  async #answer(up: Side): Promise<Outcome> {
    const { client, limits } = this.#context;
    this.sending = this.#send(up);
    for (let interim = 0; interim <= MAX_INTERIM; interim++) {
      const bytes = await up.inlet.head(limits.headBytes);
      if (!bytes) throw new Unanswered("no answer");
      const head = parseResponseHead(bytes);
      if (head.status === 101) return await this.#switch(up, head);
      if (head.status >= 200) return await this.#pass(up, head);
      const { minor, expects } = this.#request;
      if (minor === 0 || head.status === 100 && !expects) continue;
      await client.write(
        renderHead(`HTTP/1.1 ${head.status} ${head.reason}`, endToEnd(head.fields)),
      );
    }
    throw new HeadError("it never comes to its end");
  }

  async #pass(up: Side, head: ResponseHead): Promise<Outcome> {
    const { client, last } = this.#context;
    const { method, minor, keepAlive, upgrade } = this.#request;
    const framing = responseFraming(head, method);
    const body = new Body(up.inlet, framing);
    const open = framing.kind === "chunked" || framing.kind === "close";
    const chunked = open && minor === 1;
    // A client that asked for another protocol may have started to speak it: no request follows.
    const keep = keepAlive && this.#sent && upgrade === undefined && (!open || chunked) && !last();
    const fields = endToEnd(head.fields);
    const [length] = valuesOf(head.fields, "content-length");
    if (length !== undefined && head.status !== 204) fields.push(["Content-Length", length]);
    if (chunked) fields.push(["Transfer-Encoding", "chunked"]);
    if (!keep) fields.push(["Connection", "close"]);
    up.waiting.clear();
    this.#status = head.status;
    let first = [renderHead(`HTTP/1.1 ${head.status} ${head.reason}`, fields)];
    for (;;) {
      const parts = [...first, ...encoded(body.take(), chunked, body.done)];
      first = [];
      if (parts.length > 0) await client.write(joined(parts));
      if (body.done) break;
      await body.fill();
    }
    return { keep, status: head.status };
  }

  async #switch(up: Side, head: ResponseHead): Promise<Outcome> {
    const { client, limits, switched } = this.#context;
    if (this.#request.upgrade === undefined) throw new HeadError("it switches protocols unasked");
    const fields = endToEnd(head.fields);
    for (const value of valuesOf(head.fields, "upgrade")) fields.push(["Upgrade", value]);
    fields.push(["Connection", "Upgrade"]);
    up.waiting.clear();
    this.#status = 101;
    await client.write(renderHead(`HTTP/1.1 101 ${head.reason}`, fields));
    switched();
    await switchOver(client, up, limits.stallMs);
    return { keep: false, status: 101 };
  }
}
