/**
 * `GET /.svc/v1/deployments/{name}/forward`: a connection to a port inside the deployment's first running
 * instance, on a WebSocket. The server dials before it upgrades, so what stands in the way is an ordinary
 * answer.
 *
 * What travels (lib/wire/socket_stream.ts): binary messages are bytes, an empty one ends its direction and
 * the other one goes on. Text messages are JSON, `{"ack":n}` for n bytes taken, at least after a quarter of
 * the 1 MiB that may be on the way in each direction, and `{"ack":0}` now and then as a sign of life; a side
 * that gives none for two minutes is taken for gone. Close code 1000 is the end of both directions; before
 * close code 4000 a message `{"error":{code,detail,help}}` tells what failed, and the reason has its
 * beginning. Of UDP the bytes are datagrams, each behind its length in two bytes, the higher one first
 * (lib/wire/datagrams.ts); messages may hold several of them, or parts.
 */
import { SvcError } from "../base/errors.ts";

export type ForwardProtocol = "tcp" | "udp";

export interface ForwardQuery {
  /** 1 to 65535. */
  port: number;
  protocol: ForwardProtocol;
}

export const forwardPath = (name: string) => `/deployments/${encodeURIComponent(name)}/forward`;

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
