/** The public URL of a tunnel through a server with an address of its own. */
import type { TunnelProtocol } from "../api/tunnel.ts";
import { fillTemplate } from "../base/template.ts";

/** Addresses that mean all interfaces or the machine itself: useless to a visitor. */
const NOBODYS = /^(\*|localhost|0\.0\.0\.0|127\.[\d.]+|::|::1)$/i;

export interface UrlParts {
  /** The address that the other end was asked to listen on; absent: all. */
  bindHost?: string;
  /** The other end's own name. */
  serverHost: string;
  /** The port that the other end listens on. */
  port: number;
  name: string;
  protocol: TunnelProtocol;
}

const DEFAULT_TEMPLATE = "{protocol}://{host}:{port}";

/** Fills in `{host} {port} {name} {protocol}`; leaves out the scheme's default port. */
export function templateUrl(template: string | undefined, parts: UrlParts): string {
  const { bindHost, serverHost, port, name, protocol } = parts;
  const host = bindHost === undefined || NOBODYS.test(bindHost) ? serverHost : bindHost;
  const url = fillTemplate(template ?? DEFAULT_TEMPLATE, {
    host: host.includes(":") ? `[${host}]` : host,
    port: String(port),
    name,
    protocol,
  });
  return template === undefined && protocol === "http" ? url.replace(/:80$/, "") : url;
}

/** Characters of output that are searched for the URL, and characters of one line. */
const LOOKED_AT = 1 << 20;
const LONGEST_LINE = 4096;

const ESCAPES =
  // deno-lint-ignore no-control-regex
  /\u001b(?:\[[0-9;?]{0,32}[A-Za-z]|\][^\u0007\u001b]{0,256}(?:\u0007|\u001b\\)|[()][A-Z0-9])/g;

const URLS = /(?:https?|tcp|tls):\/\/[^\s"'<>`|\p{Cc}]+/gu;

function urlIn(line: string): string | undefined {
  for (const [found] of line.replace(ESCAPES, " ").matchAll(URLS)) {
    const url = found.replace(/[.,;:!?)\]}]+$/, "");
    if (URL.canParse(url) && new URL(url).hostname !== "") return url;
  }
  return undefined;
}

/** Finds the first URL of a text that comes in pieces. */
export class UrlFinder {
  #line = "";
  #seen = 0;

  /** The first URL of the lines that the piece completes. */
  add(piece: string): string | undefined {
    if (this.full) return undefined;
    this.#seen += piece.length;
    const lines = piece.split(/[\r\n]/);
    for (const [i, part] of lines.entries()) {
      this.#line += part.slice(0, LONGEST_LINE - this.#line.length);
      if (i === lines.length - 1) return undefined;
      const url = urlIn(this.#line);
      if (url !== undefined) return url;
      this.#line = "";
    }
  }

  /** The URL in a last line without a newline. */
  end(): string | undefined {
    return urlIn(this.#line);
  }

  /** True once the search has reached its limit. */
  get full(): boolean {
    return this.#seen > LOOKED_AT;
  }
}
