/** `GET /.svc/v1/ingress/tunnel`: the ingress on a WebSocket, for a client that offers it at a local port. */
import { endpoint } from "../../api/endpoints.ts";
import { HOST_MODES, type HostMode } from "../../api/tunnel.ts";
import { SvcError } from "../../base/errors.ts";
import { suggestion } from "../../base/nearest.ts";
import { aimBefore, aimOf, wishOf } from "../../ingress/host_mode.ts";
import { shownAim } from "../../tunnel/tunnels.ts";
import { accept } from "../attached/accept.ts";
import type { ManagementDeps } from "../deps.ts";
import type { ServerIngress } from "../ingress/ingress.ts";
import { arrivalOf, declaredHosts } from "../ingress/tunnel.ts";
import { Query } from "../query.ts";
import type { Context, Route } from "../route.ts";

/** The public host of a local port, for host mode `auto`. */
const LOCAL_HOST = "localhost";

const MAX_CONNECTIONS = 512;

function modeOf(query: Query): HostMode {
  const text = query.text("hostMode") ?? "auto";
  const found = HOST_MODES.find((mode) => mode === text);
  if (found) return found;
  throw new SvcError(
    "argument_invalid",
    `Cannot read query parameter hostMode: expected ${HOST_MODES.join(", ")}${
      suggestion(text, HOST_MODES)
    }`,
  );
}

export function ingressTunnelRoutes(deps: ManagementDeps, ingress: ServerIngress): Route[] {
  async function attach(context: Context): Promise<Response> {
    const { url, connection } = context;
    const query = new Query(url);
    const mode = modeOf(query);
    // The declared hosts are known once the backend is open.
    await deps.deploy.backend();
    const declared = declaredHosts(ingress);
    const wish = wishOf(mode, query.text("host"), declared);
    const aim = aimBefore(wish, declared) ?? aimOf(wish, declared, LOCAL_HOST);
    context.about = shownAim({ ingress: aim });
    const { remote } = connection;
    const arrival = {
      scheme: "http" as const,
      remote: remote.slice(0, remote.lastIndexOf(":")).replace(/^\[|\]$/g, ""),
      ...arrivalOf(aim),
    };
    return accept(context, deps.lifecycle, {
      attempt: "open a tunnel to the ingress",
      help: "use `svc ingress-tunnel --local`",
      maxStreams: MAX_CONNECTIONS,
      takes: { ingress: (stream) => ingress.proxy.accept(stream, arrival) },
      // Requests under way are answered before the session closes.
      onStop: (session) => void ingress.proxy.drain().finally(() => session.close()),
    }).response;
  }

  return [{
    ...endpoint("GET /ingress/tunnel"),
    action: "deploy",
    help: "Attached session: each stream `ingress` of the caller's is a connection (HTTP/1.1).",
    handler: attach,
  }];
}
