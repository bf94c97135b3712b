/**
 * A request as handlers see it, whichever reader read it. Costly parts (header list, address, body stream,
 * abort signal) are made on first use.
 */
import { BodyReaders } from "../../api/body_readers.ts";
import type { RequestBody } from "../../base/request_body.ts";

export type Body = ReadableStream<Uint8Array<ArrayBuffer>> & RequestBody;

/** A request as it was read, with access to its body. */
export interface Source {
  method: string;
  /** As sent: usually a path with its query. */
  target: string;
  scheme: "http" | "https";
  /** `name` in lower case; several fields of a name are joined. */
  header(name: string): string | undefined;
  headers(): [string, string][];
  body(): Body | null;
  /** Aborts when the client leaves before its answer is sent. */
  signal(): AbortSignal;
}

/** Effectively read-only: a change is visible only through the changed object. */
class LazyHeaders implements Headers {
  #list: Headers | undefined;

  constructor(private readonly source: Source) {}

  get #all(): Headers {
    return this.#list ??= new Headers(this.source.headers());
  }

  get(name: string): string | null {
    if (this.#list) return this.#list.get(name);
    return this.source.header(name.toLowerCase()) ?? null;
  }

  has(name: string): boolean {
    return this.get(name) !== null;
  }

  append(name: string, value: string): void {
    this.#all.append(name, value);
  }

  delete(name: string): void {
    this.#all.delete(name);
  }

  set(name: string, value: string): void {
    this.#all.set(name, value);
  }

  getSetCookie(): string[] {
    return this.#all.getSetCookie();
  }

  forEach(callback: (value: string, key: string, parent: this) => void, thisArg?: unknown): void {
    for (const [name, value] of this.#all) callback.call(thisArg, value, name, this);
  }

  entries() {
    return this.#all.entries();
  }

  keys() {
    return this.#all.keys();
  }

  values() {
    return this.#all.values();
  }

  [Symbol.iterator]() {
    return this.#all[Symbol.iterator]();
  }
}

/** A path that is its own normal form: no query, no escapes, no dot segments. */
const PLAIN = /^\/[\w\-.:~/]*$/;
const DOTS = /\/\.{1,2}(?:\/|$)/;
const HOST = /^[\w.\-]+(?::\d+)?$|^\[[\da-fA-F:.]+\](?::\d+)?$/;

/** True for a Host field's value (RFC 9112 3.2). */
export function isHost(text: string): boolean {
  // It also has to make a URL: ports and addresses have bounds.
  return HOST.test(text) && URL.canParse(`http://${text}`);
}

/** The host that a request names; undefined where it names none, or a malformed one. */
export function hostOf(source: Source): string | undefined {
  const host = source.header("host");
  return host !== undefined && isHost(host) ? host : undefined;
}

export class ListenerRequest extends BodyReaders implements Request {
  readonly cache = "default";
  readonly credentials = "same-origin";
  readonly destination = "";
  readonly integrity = "";
  readonly isHistoryNavigation = false;
  readonly isReloadNavigation = false;
  readonly keepalive = false;
  readonly mode = "cors";
  readonly redirect = "follow";
  readonly referrer = "about:client";
  readonly referrerPolicy = "";
  readonly duplex = "half";
  readonly headers: Headers;
  #body: Body | null | undefined;
  #url: string | undefined;

  constructor(private readonly source: Source) {
    super();
    this.headers = new LazyHeaders(source);
  }

  get method(): string {
    return this.source.method;
  }

  get url(): string {
    if (this.#url !== undefined) return this.#url;
    const { target, scheme } = this.source;
    const base = `${scheme}://${hostOf(this.source) ?? "localhost"}`;
    return this.#url = target.startsWith("/") ? base + target : new URL(target, base).href;
  }

  /** The path of `url`, normalised. */
  get path(): string {
    const { target } = this.source;
    const plain = PLAIN.test(target) && !(target.includes("/.") && DOTS.test(target));
    return plain ? target : new URL(this.url).pathname;
  }

  get signal(): AbortSignal {
    return this.source.signal();
  }

  get body(): Body | null {
    return this.#body === undefined ? this.#body = this.source.body() : this.#body;
  }

  get bodyUsed(): boolean {
    return this.#body?.locked ?? false;
  }

  protected whole(): Response {
    return new Response(this.body);
  }

  clone(): Request {
    return new Request(this.url, {
      method: this.method,
      headers: this.headers,
      body: this.body,
      signal: this.signal,
    });
  }
}
