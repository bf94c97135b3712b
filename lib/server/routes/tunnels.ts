/** `/.svc/v1/tunnels…`: public URLs of deployments and of the ingress (lib/api/tunnel.ts). */
import { HOST_MODES, TUNNEL_PROTOCOLS, type TunnelEvent } from "../../api/tunnel.ts";
import { SvcError } from "../../base/errors.ts";
import { suggestion } from "../../base/nearest.ts";
import { serveBy } from "../../tunnel/serve.ts";
import { type Entry, shownAim, type Tunnels, type TunnelWish } from "../../tunnel/tunnels.ts";
import { ingressTunnel } from "../ingress/tunnel.ts";
import type { ManagementDeps } from "../deps.ts";
import { describeError } from "../error_response.ts";
import { json, readText } from "../json.ts";
import { NDJSON_TYPE, pushEvents } from "../ndjson.ts";
import type { Context, Route } from "../route.ts";
import { unknownDeployment } from "./deployments.ts";
import { API_PREFIX, endpoint } from "../../api/endpoints.ts";

const PATH = `${API_PREFIX}/tunnels`;

const MAX_BODY = 256 * 1024;

/** A tunnel's client gets an event at least this often, so that a lost client is noticed. */
const ALIVE_MS = 15_000;

const FIELDS = ["deployment", "port", "ingress", "protocol", "backend", "credential"];
const INGRESS_FIELDS = ["hostMode", "host"];

type Fields = Record<string, unknown>;

function wrong(what: string): SvcError {
  return new SvcError("argument_invalid", `Cannot open a tunnel: ${what}`);
}

function textField(fields: Fields, name: string, above = ""): string | undefined {
  const value = fields[name];
  if (value === undefined || typeof value === "string" && value !== "") return value;
  throw wrong(`${above}${name}: expected a text`);
}

function wordField<T extends string>(
  fields: Fields,
  name: string,
  words: readonly T[],
  above = "",
) {
  const text = textField(fields, name, above);
  const found = text === undefined ? words[0] : words.find((word) => word === text);
  if (found !== undefined) return found;
  throw wrong(`${above}${name}: expected ${words.join(" or ")}${suggestion(text!, words)}`);
}

function known(fields: Fields, names: readonly string[], above = ""): void {
  for (const name of Object.keys(fields)) {
    if (names.includes(name)) continue;
    throw wrong(`unknown field ${above}${name}${suggestion(name, names)}`);
  }
}

const isObject = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);

async function readBody(request: Request): Promise<Fields> {
  let body: unknown;
  try {
    body = JSON.parse(await readText(request, MAX_BODY, "request"));
  } catch (error) {
    if (error instanceof SvcError) throw error;
    // The parser's own message could quote a part of the credential.
    throw wrong("the request is not JSON");
  }
  if (!isObject(body)) throw wrong("the request is not a JSON object");
  known(body, FIELDS);
  return body;
}

/** A deployment's port. Undefined: the body asks for the ingress. */
function deploymentOf(body: Fields): { deployment: string; port: number } | undefined {
  const deployment = textField(body, "deployment");
  const { port, ingress } = body;
  if (ingress !== undefined) {
    if (deployment === undefined && port === undefined) return undefined;
    throw wrong("ingress: it stands in the place of deployment and port");
  }
  if (deployment === undefined) throw wrong("deployment: missing");
  if (!Number.isInteger(port) || port as number < 1 || port as number > 65535) {
    throw wrong("port: expected 1..65535");
  }
  return { deployment, port: port as number };
}

async function wishOf(
  deps: ManagementDeps,
  context: Context,
  held: boolean,
): Promise<TunnelWish> {
  const body = await readBody(context.request);
  const protocol = wordField(body, "protocol", TUNNEL_PROTOCOLS);
  const common = {
    ...{ protocol, held, subject: context.identity.subject },
    ...{ backend: textField(body, "backend"), credential: textField(body, "credential") },
  };
  const aim = deploymentOf(body);
  context.about = aim ? shownAim(aim) : "ingress";
  const engine = await deps.deploy.backend();
  if (!aim) return { ...common, ...ingressWish(deps, body) };
  const { deployment, port } = aim;
  if (!await engine.status(deployment)) throw unknownDeployment("open a tunnel to", deployment);
  return {
    ...{ ...common, aim, name: deployment },
    serve: serveBy((signal) => engine.dial(deployment, port, "tcp", { signal }), protocol),
  };
}

/** The caller has opened the backend, so the declared hosts are known. */
function ingressWish(
  { ingress }: ManagementDeps,
  body: Fields,
): Pick<TunnelWish, "name" | "hostname" | "aim" | "serve"> {
  if (!ingress) throw wrong("this server has no ingress");
  if (body.protocol !== undefined && body.protocol !== "http") {
    throw wrong("protocol: the ingress speaks http");
  }
  const { ingress: fields } = body;
  if (!isObject(fields)) throw wrong("ingress: expected an object");
  known(fields, INGRESS_FIELDS, "ingress.");
  const mode = wordField(fields, "hostMode", HOST_MODES, "ingress.");
  return ingressTunnel(ingress, mode, textField(fields, "host", "ingress."));
}

/** The tunnel lives as long as the client reads its events. */
function hold(entry: Entry, context: Context, stopping: AbortSignal): Response {
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

async function open(
  deps: ManagementDeps,
  tunnels: Tunnels,
  context: Context,
): Promise<Response> {
  const { stopping } = deps.lifecycle;
  const { request, signal } = context;
  const held = (request.headers.get("accept") ?? "").includes(NDJSON_TYPE);
  const wish = await wishOf(deps, context, held);
  const entry = await tunnels.open(wish, AbortSignal.any([signal, stopping]));
  const { status } = entry;
  context.about = `${shownAim(status)} at ${status.url}`;
  if (held) return hold(entry, context, stopping);
  return json(status, { status: 201, headers: { location: `${PATH}/${status.id}` } });
}

function find(tunnels: Tunnels, { params: { id } }: Context): Entry {
  const entry = tunnels.get(id);
  if (entry) return entry;
  throw new SvcError("not_found", `Cannot find tunnel ${id}: it is not open`, {
    help: "`GET /.svc/v1/tunnels` lists the open ones",
  });
}

export function tunnelRoutes(deps: ManagementDeps, tunnels: Tunnels): Route[] {
  return [
    {
      ...endpoint("POST /tunnels"),
      action: "deploy",
      help: `Opens a tunnel (\`${FIELDS.join(" ")}\`) and answers with its URL and id. With ` +
        `\`Accept: ${NDJSON_TYPE}\` the answer is events (opened, down, up, alive, then closed or error), ` +
        "and the tunnel ends when they are no longer read; else with a DELETE, or with the server.",
      handler: (context) => open(deps, tunnels, context),
    },
    {
      ...endpoint("GET /tunnels"),
      action: "read",
      help: "The open tunnels.",
      handler: () => json(tunnels.list()),
    },
    {
      ...endpoint("GET /tunnels/{id}"),
      action: "read",
      help: "One tunnel.",
      handler: (context) => json(find(tunnels, context).status),
    },
    {
      ...endpoint("DELETE /tunnels/{id}"),
      action: "deploy",
      help: "Closes a tunnel, and its visitors' connections.",
      handler: async (context) => {
        const entry = find(tunnels, context);
        context.about = `${shownAim(entry.status)} at ${entry.status.url}`;
        await entry.close();
        return new Response(null, { status: 204 });
      },
    },
  ];
}
