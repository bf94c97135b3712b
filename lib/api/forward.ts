/**
 * `GET /.svc/v1/deployments/{name}/forward`: a connection to a port inside the deployment's first running
 * instance, on an attached session (lib/wire/attached/session.ts). The server dials before it upgrades, so
 * what stands in the way is an ordinary answer. Then it opens one stream, `port`, which is the connection: each
 * direction ends by itself. What breaks it is the session's error. Of UDP the bytes are datagrams, each behind
 * its length in two bytes, the higher one first (lib/wire/datagrams.ts).
 */
import { SvcError } from "../base/errors.ts";

export type ForwardProtocol = "tcp" | "udp";

export interface ForwardQuery {
  /** 1 to 65535. */
  port: number;
  protocol: ForwardProtocol;
}

export const forwardPath = (name: string) =>
  `/deployments/${encodeURIComponent(name)}/forward` as const;

export function encodeForwardQuery({ port, protocol }: ForwardQuery): URLSearchParams {
  return new URLSearchParams({ port: String(port), protocol });
}

/** Throws `argument_invalid`. Without `protocol` it is TCP. */
export function decodeForwardQuery(params: URLSearchParams): ForwardQuery {
  const port = params.get("port");
  if (port === null || !/^\d{1,5}$/.test(port) || Number(port) < 1 || Number(port) > 65535) {
    const got = port === null ? "nothing" : JSON.stringify(port);
    throw new SvcError("argument_invalid", `Cannot forward: port: expected 1 to 65535, got ${got}`);
  }
  const protocol = params.get("protocol") ?? "tcp";
  if (protocol !== "tcp" && protocol !== "udp") {
    throw new SvcError(
      "argument_invalid",
      `Cannot forward: protocol: expected tcp or udp, got ${JSON.stringify(protocol)}`,
    );
  }
  return { port: Number(port), protocol };
}
