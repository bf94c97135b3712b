/** `GET /.svc/v1/ingress/tunnel`: the ingress on a WebSocket, for who makes it a local port. */
import { HOST_MODES, type HostMode } from "../../api/tunnel.ts";
import { SvcError } from "../../base/errors.ts";
import { suggestion } from "../../base/nearest.ts";
import { aimBefore, aimOf, wishOf } from "../../ingress/host_mode.ts";
import { shownAim } from "../../tunnel/tunnels.ts";
import { socketLink } from "../../wire/socket_link.ts";
import { YamuxSession } from "../../wire/yamux/session.ts";
import type { ManagementDeps } from "../deps.ts";
import type { ServerIngress } from "../ingress/ingress.ts";
import { arrivalOf, declaredHosts } from "../ingress/tunnel.ts";
import { Query } from "../query.ts";
import type { Context, Route } from "../route.ts";
import { API_PREFIX } from "./health.ts";

const PARAMETERS = ["hostMode", "host"];

/** What a local port's own host is to `auto`. */
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
    const { request, url, connection } = context;
    const query = new Query(url, PARAMETERS);
    const mode = modeOf(query);
    // What is declared is known when the backend is there.
    await deps.deploy.backend();
    const declared = declaredHosts(ingress);
    const wish = wishOf(mode, query.text("host"), declared);
    const aim = aimBefore(wish, declared) ?? aimOf(wish, declared, LOCAL_HOST);
    if (request.headers.get("upgrade")?.toLowerCase() !== "websocket") {
      throw new SvcError(
        "argument_invalid",
        "Cannot open a tunnel to the ingress: the request is no WebSocket",
        { help: "use `svc ingress-tunnel --local`, or a WebSocket client" },
      );
    }
    context.about = shownAim({ ingress: aim });
    const { remote } = connection;
    const arrival = {
      scheme: "http" as const,
      remote: remote.slice(0, remote.lastIndexOf(":")).replace(/^\[|\]$/g, ""),
      ...arrivalOf(aim),
    };
    const { socket, response } = connection.upgrade(request);
    socket.binaryType = "arraybuffer";
    const session = new YamuxSession(socketLink(socket), {
      role: "server",
      maxStreams: MAX_CONNECTIONS,
      lateAck: true,
      onStream: (stream) => void ingress.proxy.accept(stream, arrival),
    });
    socket.onmessage = ({ data }) => {
      if (data instanceof ArrayBuffer) session.receive(new Uint8Array(data));
      else session.lost("a message is not binary");
    };
    socket.onclose = () => session.lost();
    socket.onerror = () => session.lost();
    const { stopping } = deps.lifecycle;
    const end = deps.lifecycle.begin();
    // Requests under way are answered first.
    const stop = () => void ingress.proxy.drain().finally(() => session.close());
    stopping.addEventListener("abort", stop, { once: true });
    if (stopping.aborted) stop();
    void session.closed.then(() => {
      stopping.removeEventListener("abort", stop);
      if (socket.readyState <= WebSocket.OPEN) socket.close();
      end();
    });
    return response;
  }

  return [{
    method: "GET",
    path: `${API_PREFIX}/ingress/tunnel`,
    action: "deploy",
    help: "WebSocket: yamux, each of whose streams is a connection to the ingress (HTTP/1.1). " +
      `Query: \`${PARAMETERS.join(" ")}\`.`,
    handler: attach,
  }];
}
