/** The connections of docker's build clients: their sessions, and BuildKit's own services. */
import { encodeMessage } from "../../wire/grpc/protobuf.ts";
import { serveGrpc } from "../../wire/grpc/server.ts";
import { type DockerApi, perApi } from "../api.ts";
import { wishOf } from "../build/parameters.ts";
import { cannotBuild } from "../build/wish.ts";
import { invalid } from "../errors.ts";
import { streamed } from "../messages.ts";
import type { Answer, Call } from "../request.ts";
import type { ApiRoute } from "../route.ts";
import { buildOnce } from "./built.ts";
import { Control } from "./control.ts";
import { STATUS_RESPONSE } from "./control_api.ts";
import { BuildSessions } from "./sessions.ts";
import { Trace } from "./trace.ts";
import { Uploads } from "./uploads.ts";

const heldBy = perApi((api) => {
  const sessions = new BuildSessions();
  return { sessions, control: new Control(api, sessions), uploads: new Uploads() };
});

function wantUpgrade(call: Call): void {
  if (call.upgrade === "h2c") return;
  throw invalid(`Cannot ${call.path}: it needs an upgrade to h2c`);
}

async function session(call: Call, api: DockerApi): Promise<void> {
  wantUpgrade(call);
  const id = call.header("x-docker-expose-session-uuid");
  if (!id) throw invalid("Cannot open a session: it has no id");
  const methods = call.headers("x-docker-expose-session-grpc-method");
  await heldBy(api).sessions.hold(call.takeSocket(), { id, methods }, call.signal);
}

async function grpc(call: Call, api: DockerApi): Promise<void> {
  wantUpgrade(call);
  await serveGrpc(call.takeSocket(), heldBy(api).control.served, call.signal);
}

/** `POST /build?version=2`: the build of docker 18.09 to 22, whose client has the session and reads a trace. */
export async function buildWithSession(call: Call, api: DockerApi): Promise<Answer> {
  const { sessions, uploads } = heldBy(api);
  const { query, signal } = call;
  const buildId = query.get("buildid") ?? "";
  if (buildId.startsWith(Uploads.prefix)) return await uploads.give(buildId, call);
  const outputs = query.get("outputs");
  if (outputs && outputs !== "null" && outputs !== "[]") {
    throw cannotBuild(`--output ${outputs}`, "svc build --output writes files and archives");
  }
  const wish = wishOf(call);
  const archive = query.get("remote") === "upload-request"
    ? uploads.take(buildId, signal)
    : undefined;
  const client = await sessions.find(query.get("session") ?? "", signal);
  return await streamed(async (tell) => {
    const trace = new Trace(buildId);
    const result = await buildOnce({
      ...{ api, client, signal, asked: { wish, folders: new Map() } },
      ...(archive && { archive }),
      onEvent(event) {
        const message = trace.message(event);
        if (!message) return;
        const aux = encodeMessage(STATUS_RESPONSE, message).toBase64();
        tell({ id: "moby.buildkit.trace", aux });
      },
    });
    if (call.flag("q")) tell({ stream: `${result.imageId}\n` });
    tell({ id: "moby.image.id", aux: { ID: result.imageId } });
    for (const name of wish.names) api.events.tell("image", "tag", result.imageId, { name });
  }, signal);
}

export const BUILDKIT_ROUTES: readonly ApiRoute[] = [
  { method: "POST", path: "/session", handler: session },
  { method: "POST", path: "/grpc", handler: grpc },
];
