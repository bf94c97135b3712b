/** A local address that leads to workloads, for a person. */
import type { Endpoint } from "../client/conduit/conduit.ts";

export function endpointLine(endpoint: Endpoint): string {
  if (endpoint.kind === "port") {
    const { address, deployment, port, protocol } = endpoint;
    return `${address} -> ${deployment}:${port}/${protocol}`;
  }
  if (endpoint.kind === "ingress") {
    const { url, deployment, port, address } = endpoint;
    return `${url} -> ${deployment}:${port} (at ${address})`;
  }
  const { address, suffix } = endpoint;
  return `socks5h://${address}${suffix === undefined ? "" : ` -> NAME${suffix}:PORT`}`;
}
