/** `/.svc/v1/tunnels…`: public URLs of deployments (lib/api/tunnel.ts). */
import { TUNNEL_PROTOCOLS, type TunnelBody, type TunnelEvent } from "../../api/tunnel.ts";
import { SvcError } from "../../base/errors.ts";
import { suggestion } from "../../base/nearest.ts";
import { serveBy } from "../../tunnel/serve.ts";
import type { Entry, Tunnels, TunnelWish } from "../../tunnel/tunnels.ts";
import type { ManagementDeps } from "../deps.ts";
import { describeError } from "../error_response.ts";
import { json, readText } from "../json.ts";
import { NDJSON_TYPE, pushEvents } from "../ndjson.ts";
import { Query } from "../query.ts";
import type { Context, Route } from "../route.ts";
import { unknownDeployment } from "./deployments.ts";
import { API_PREFIX } from "./health.ts";

const PATH = `${API_PREFIX}/tunnels`;

const MAX_BODY = 256 * 1024;

/** Whoever holds a tunnel hears something this often: one that is gone without a word is noticed. */
const ALIVE_MS = 15_000;

const FIELDS = ["deployment", "port", "protocol", "backend", "credential"];

function wrong(what: string): SvcError {
  return new SvcError("argument_invalid", `Cannot open a tunnel: ${what}`);
}

function textField(body: Record<string, unknown>, name: keyof TunnelBody): string | undefined {
  const value = body[name];
  if (value === undefined || typeof value === "string" && value !== "") return value;
  throw wrong(`${name}: expected a text`);
}

async function readBody(request: Request): Promise<TunnelBody> {
  let body: Record<string, unknown>;
  try {
    body = JSON.parse(await readText(request, MAX_BODY, "request"));
  } catch (error) {
    if (error instanceof SvcError) throw error;
    // The parser's own words may hold a part of the credential.
    throw wrong("the request is no JSON");
  }
  if (typeof body !== "object" || body === null) throw wrong("the request is no JSON object");
  for (const name of Object.keys(body)) {
    if (!FIELDS.includes(name)) throw wrong(`unknown field ${name}${suggestion(name, FIELDS)}`);
  }
  const deployment = textField(body, "deployment");
  if (deployment === undefined) throw wrong("deployment: missing");
  const { port } = body;
  if (!Number.isInteger(port) || port as number < 1 || port as number > 65535) {
    throw wrong("port: expected 1..65535");
  }
  const protocol = textField(body, "protocol");
  const known = TUNNEL_PROTOCOLS.find((one) => one === (protocol ?? "http"));
  if (!known) throw wrong(`protocol: expected ${TUNNEL_PROTOCOLS.join(" or ")}`);
  return {
    ...{ deployment, port: port as number, protocol: known },
    ...{ backend: textField(body, "backend"), credential: textField(body, "credential") },
  };
}

export function tunnelRoutes(deps: ManagementDeps, tunnels: Tunnels): Route[] {
  const { stopping } = deps.lifecycle;

  async function wishOf(context: Context, held: boolean): Promise<TunnelWish> {
    const { deployment, port, protocol = "http", backend, credential } = await readBody(
      context.request,
    );
    context.about = `${deployment}:${port}`;
    const engine = await deps.deploy.backend();
    if (!await engine.status(deployment)) throw unknownDeployment("open a tunnel to", deployment);
    return {
      ...{ deployment, port, protocol, backend, credential, held },
      subject: context.identity.subject,
      serve: serveBy((signal) => engine.dial(deployment, port, "tcp", { signal }), protocol),
    };
  }

  /** The tunnel lives as long as its events are read. */
  function hold(entry: Entry, context: Context): Response {
    const { log } = context;
    context.untilGone = true;
    const close = () =>
      void entry.close().catch((error) => log.warn("a tunnel did not close", { error }));
    return pushEvents<TunnelEvent>(async (send) => {
      const alive = setInterval(() => send({ type: "alive" }), ALIVE_MS);
      stopping.addEventListener("abort", close, { once: true });
      if (stopping.aborted) close();
      try {
        entry.onChange = (change) =>
          send(
            change.state === "up"
              ? { type: "up", url: change.url }
              : { type: "down", reason: change.reason },
          );
        send({ type: "opened", tunnel: entry.status });
        const why = await entry.closed;
        if (why) throw why;
        if (stopping.aborted) {
          throw new SvcError("unavailable", "Cannot hold the tunnel: the server is shutting down");
        }
        send({ type: "closed" });
      } finally {
        clearInterval(alive);
        stopping.removeEventListener("abort", close);
      }
    }, { describe: (error) => describeError(error, context), onCancel: close });
  }

  async function open(context: Context): Promise<Response> {
    const { request, url, signal } = context;
    new Query(url, []);
    const held = (request.headers.get("accept") ?? "").includes(NDJSON_TYPE);
    const wish = await wishOf(context, held);
    const entry = await tunnels.open(wish, AbortSignal.any([signal, stopping]));
    const { status } = entry;
    context.about = `${wish.deployment}:${wish.port} at ${status.url}`;
    if (held) return hold(entry, context);
    return json(status, { status: 201, headers: { location: `${PATH}/${status.id}` } });
  }

  function find({ url, params: { id } }: Context): Entry {
    new Query(url, []);
    const entry = tunnels.get(id);
    if (entry) return entry;
    throw new SvcError("not_found", `Cannot find tunnel ${id}: it is not open`, {
      help: "`GET /.svc/v1/tunnels` lists the open ones",
    });
  }

  return [
    {
      method: "POST",
      path: PATH,
      action: "deploy",
      help: `Opens a tunnel (\`${FIELDS.join(" ")}\`) and answers with its URL and id. With ` +
        `\`Accept: ${NDJSON_TYPE}\` the answer is events (opened, down, up, alive, then closed or error), ` +
        "and the tunnel ends when they are no longer read; else with a DELETE, or with the server.",
      handler: open,
    },
    {
      method: "GET",
      path: PATH,
      help: "The open tunnels.",
      handler: ({ url }) => {
        new Query(url, []);
        return json(tunnels.list());
      },
    },
    {
      method: "GET",
      path: `${PATH}/{id}`,
      help: "One tunnel.",
      handler: (context) => json(find(context).status),
    },
    {
      method: "DELETE",
      path: `${PATH}/{id}`,
      action: "deploy",
      help: "Closes a tunnel, and its visitors' connections.",
      handler: async (context) => {
        const entry = find(context);
        const { deployment, port } = entry.status;
        context.about = `${deployment}:${port} at ${entry.status.url}`;
        await entry.close();
        return new Response(null, { status: 204 });
      },
    },
  ];
}
