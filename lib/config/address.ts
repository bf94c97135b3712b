/** Listen addresses: `[host]:port`. */
import { SvcError } from "../base/errors.ts";

export interface ListenAddress {
  /** Absent: all interfaces. */
  hostname?: string;
  /** 0: any free port. */
  port: number;
}

/** Reads ":5000", "127.0.0.1:5000", "[::1]:5000". `source` stands in the `config_invalid` error. */
export function parseAddress(text: string, source: string): ListenAddress {
  const match = /^(?:\[([0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]|([^\s:[\]/]*)):(\d{1,5})$/.exec(text);
  const port = match ? Number(match[3]) : NaN;
  if (!match || port > 65535) {
    throw new SvcError(
      "config_invalid",
      `Cannot read ${source}: ${
        JSON.stringify(text)
      } is not an address; expected [host]:port, such as :5000 or 127.0.0.1:5000`,
    );
  }
  const hostname = match[1] ?? match[2];
  return hostname === "" ? { port } : { hostname, port };
}

/** The inverse of {@linkcode parseAddress}: an IPv6 host in brackets. */
export function formatAddress({ hostname = "", port }: ListenAddress): string {
  return hostname.includes(":") ? `[${hostname}]:${port}` : `${hostname}:${port}`;
}
