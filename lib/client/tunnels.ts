/** Public tunnels, from the caller's side (lib/api/tunnel.ts). */
import type { TunnelBody, TunnelEvent } from "../api/tunnel.ts";
import { SvcError } from "../base/errors.ts";
import type { Client } from "./client.ts";
import { problemError } from "./problems.ts";

/** Events of a tunnel that ends with the request; the first one is `opened`. */
export type HeldTunnelEvent = Exclude<TunnelEvent, { type: "alive" | "error" }>;

/**
 * Opens a tunnel that lives as long as its events are read; `closed` is the last event. Throws what the server
 * reports, and `upstream_failed` where the connection to the server broke, which ends the tunnel.
 */
export async function* holdTunnel(
  client: Client,
  body: TunnelBody,
): AsyncGenerator<HeldTunnelEvent> {
  const events = client.events("POST /tunnels", { json: body });
  for await (const event of events) {
    if (event.type === "error") throw problemError(event.error);
    if (event.type !== "alive") yield event;
    if (event.type === "closed") return;
  }
  throw new SvcError(
    "upstream_failed",
    `Cannot hold the tunnel: ${client.server} closed the connection`,
    { help: "open it again; the server's log may say why" },
  );
}
