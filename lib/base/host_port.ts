/** Parses `host[:port]`. */

export interface HostPort {
  host?: string;
  port?: number;
}

/** Reads "host", "host:1", ":1", "[::1]:1"; undefined for any other form. */
export function splitHostPort(text: string): HostPort | undefined {
  const match = /^(?:\[([0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]|([^\s:[\]/@]*))(?::(\d{1,5}))?$/.exec(text);
  if (!match) return undefined;
  const host = match[1] ?? match[2];
  const port = match[3] === undefined ? undefined : Number(match[3]);
  if (port !== undefined && port > 65535) return undefined;
  if (host === "" && port === undefined) return undefined;
  return { ...(host !== "" && { host }), ...(port !== undefined && { port }) };
}

/** Reads "[user@]host[:port]", as `ssh` takes it; undefined for any other form. */
export function splitLogin(text: string): HostPort & { user?: string } | undefined {
  const at = text.lastIndexOf("@");
  const address = splitHostPort(text.slice(at + 1));
  if (at < 0 || !address) return address;
  const user = text.slice(0, at);
  return /^[^\s@-][^\s@]*$/.test(user) ? { user, ...address } : undefined;
}

/** The inverse of {@linkcode splitHostPort}: an IPv6 host in brackets. */
export function joinHostPort(host: string, port: number): string {
  return `${host.includes(":") ? `[${host}]` : host}:${port}`;
}

/** True for localhost, *.localhost, 127.0.0.0/8 and ::1, with or without a port. */
export function isLoopbackHost(host: string): boolean {
  const name = host.startsWith("[")
    ? host.slice(1, host.indexOf("]"))
    : host.replace(/:\d+$/, "").toLowerCase();
  return name === "localhost" || name.endsWith(".localhost") || name === "::1" ||
    /^127(\.\d{1,3}){3}$/.test(name);
}
