/** Responses whose parts a listener can read directly. */
import type { BlobBody } from "../oci/image.ts";
import { BodyReaders } from "./body_readers.ts";

export type Fields = Readonly<Record<string, string | undefined>>;

/**
 * A `Response` that keeps its parts. Making one allocates no stream and no header list, which would take most
 * of a small answer's time. A listener reads the parts; other code uses the standard members.
 */
export class Reply extends BodyReaders implements Response {
  readonly redirected = false;
  readonly type = "default";
  readonly url = "";
  readonly statusText = "";
  #extra: string[] = [];
  #headers: Headers | undefined;
  #whole: Response | undefined;

  /** Fields with the value undefined are not sent. The caller sets the length of the body. */
  constructor(
    readonly status: number,
    private readonly fields: Fields,
    readonly content: Uint8Array | BlobBody | null = null,
  ) {
    super();
  }

  get ok(): boolean {
    return this.status >= 200 && this.status < 300;
  }

  get headers(): Headers {
    if (this.#headers) return this.#headers;
    const pairs = this.pairs();
    const headers = new Headers();
    for (let n = 0; n < pairs.length; n += 2) headers.append(pairs[n], pairs[n + 1]);
    return this.#headers = headers;
  }

  /** The value of one field (name in lower case). */
  field(name: string): string | undefined {
    return this.fields[name];
  }

  /** Adds a field. */
  with(name: string, value: string): this {
    if (this.#headers) this.#headers.set(name, value);
    else this.#extra.push(name, value);
    return this;
  }

  /** Names and values, alternating. */
  pairs(): string[] {
    const list: string[] = [];
    if (this.#headers) { for (const [name, value] of this.#headers) list.push(name, value); }
    else {
      for (const name in this.fields) {
        const value = this.fields[name];
        if (value !== undefined) list.push(name, value);
      }
      list.push(...this.#extra);
    }
    return list;
  }

  protected whole(): Response {
    const { status, content } = this;
    const body = content === null || content instanceof Uint8Array ? content : content.stream();
    return this.#whole ??= new Response(body as BodyInit | null, { status, headers: this.headers });
  }

  get body(): ReadableStream<Uint8Array<ArrayBuffer>> | null {
    return this.content === null ? null : this.whole().body;
  }

  get bodyUsed(): boolean {
    return this.#whole?.bodyUsed ?? false;
  }

  clone(): Response {
    return this.whole().clone();
  }
}
