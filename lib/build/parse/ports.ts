/** EXPOSE's port specifications. */

export interface ExposedPorts {
  /** Number of ports. */
  count: number;
  /** "8080/tcp", one for each port of a range. */
  ports(): string[];
  /** The protocol as written, if it was. */
  protocol?: string;
  /** An address or host port came first; it is accepted and ignored, as docker does. */
  hostPart: boolean;
}

/**
 * Parses `[[ip:]host:]port[-port][/protocol]`, already expanded. Returns the reason where the text is
 * invalid.
 */
export function parsePorts(text: string): ExposedPorts | { reason: string } {
  const reason = (why: string) => ({ reason: `port ${JSON.stringify(text)} is invalid: ${why}` });
  const colon = text.lastIndexOf(":");
  const container = text.slice(colon + 1);
  const slash = container.indexOf("/");
  const range = slash === -1 ? container : container.slice(0, slash);
  const protocol = slash === -1 ? undefined : container.slice(slash + 1);
  const lower = protocol?.toLowerCase() || "tcp";
  if (!["tcp", "udp", "sctp"].includes(lower)) return reason("the protocol is tcp, udp or sctp");
  const match = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(range);
  if (!match) return reason("expected PORT, PORT-PORT or PORT/PROTOCOL");
  const first = Number(match[1]);
  const last = Number(match[2] ?? match[1]);
  if (first > 65535 || last > 65535) return reason("ports go up to 65535");
  if (last < first) return reason("the range ends before it starts");
  const count = last - first + 1;
  return {
    count,
    ports: () => Array.from({ length: count }, (_, i) => `${first + i}/${lower}`),
    hostPart: colon !== -1,
    ...(protocol === undefined ? {} : { protocol }),
  };
}
