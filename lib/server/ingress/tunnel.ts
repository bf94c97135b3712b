/** A public tunnel to the ingress: which declared host the tunnel's public host stands for. */
import type { HostMode, IngressAim } from "../../api/tunnel.ts";
import { aimBefore, aimOf, wishOf } from "../../ingress/host_mode.ts";
import { requestedHost } from "../../ingress/host_name.ts";
import type { Arrival } from "../../ingress/interface.ts";
import type { TunnelWish } from "../../tunnel/tunnels.ts";
import type { ServerIngress } from "./ingress.ts";

/** How the proxy learns which host a tunnel's requests are for. */
export function arrivalOf({ hostMode, host }: IngressAim): Pick<Arrival, "as"> {
  if (hostMode === "passthrough" || host === undefined) return {};
  return { as: { host, rewrite: hostMode === "rewrite" } };
}

export function declaredHosts({ table }: ServerIngress): string[] {
  return [...new Set(table.all().map(({ host }) => host))].sort();
}

/** Throws `argument_invalid` where a host has to be chosen, or no deployment declares the chosen host. */
export function ingressTunnel(
  ingress: ServerIngress,
  mode: HostMode,
  host: string | undefined,
): Pick<TunnelWish, "name" | "hostname" | "aim" | "serve"> {
  const wish = wishOf(mode, host, declaredHosts(ingress));
  const before = aimBefore(wish, declaredHosts(ingress));
  return {
    name: "ingress",
    ...(before?.hostMode === "passthrough" && { hostname: before.host }),
    aim: (url) => ({
      ingress: before ??
        aimOf(wish, declaredHosts(ingress), requestedHost(new URL(url).host) ?? ""),
    }),
    serve: (stream, { from, tunnel }) =>
      ingress.proxy.accept(stream, {
        scheme: tunnel.url.startsWith("https:") ? "https" : "http",
        ...(from !== undefined && { remote: from }),
        ...(tunnel.ingress && arrivalOf(tunnel.ingress)),
      }),
  };
}
