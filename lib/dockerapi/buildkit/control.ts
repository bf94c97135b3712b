/** BuildKit's services as `svc daemon docker` answers them (`POST /grpc`), for buildx and what is made of it. */
import { buildInfo } from "../../base/build_info.ts";
import { SvcError } from "../../base/errors.ts";
import { waitFor } from "../../base/wait_for.ts";
import type { BuildResult } from "../../api/build.ts";
import { familiarName } from "../../oci/archive_docker.ts";
import { hostPlatform } from "../../oci/platform.ts";
import { type Answering, serveCall, type Served, serveStream } from "../../wire/grpc/server.ts";
import type { DockerApi } from "../api.ts";
import { cannotPrune, collectAll } from "../build/garbage.ts";
import { cannotBuild } from "../build/wish.ts";
import { invalid } from "../errors.ts";
import { asked } from "./attributes.ts";
import { buildOnce, refuseEntitlements } from "./built.ts";
import {
  type CacheEntry,
  type FrontendRequest,
  FrontendSolve,
  Info,
  ListWorkers,
  Ping,
  Prune,
  Return,
  Session,
  Solve,
  type SolveRequest,
  Status,
  type Worker,
} from "./control_api.ts";
import type { BuildSessions } from "./sessions.ts";
import { type SolveRun, Solves } from "./solves.ts";
import { Trace } from "./trace.ts";
import { tunnelOf } from "./tunnel.ts";

/** Head field by which a call of the gateway names its build. */
const BUILD_ID = "buildkit-controlapi-buildid";

/** What the gateway can do: buildx asks before it uses any of it. */
const CAPS = ["solve.base", "return", "returnmap", "proto.refarray", "frontend.caps"];

const frontends = ["dockerfile.v0"];

function worker(): Worker {
  const { os, architecture } = hostPlatform();
  const { version } = buildInfo();
  return {
    id: "svc",
    labels: {},
    platforms: [{ os, architecture }],
    version: { package: "svc", version, revision: "" },
  };
}

/** The one result that is asked for; none where the image goes into the registry without a name. */
function exporterOf({ exporters, exporterDeprecated, exporterAttrsDeprecated }: SolveRequest) {
  const all: CacheEntry[] = exporters.length > 0
    ? exporters
    : exporterDeprecated
    ? [{ type: exporterDeprecated, attrs: exporterAttrsDeprecated }]
    : [];
  for (const { type, attrs } of all) {
    if (type !== "moby" && type !== "image") {
      throw cannotBuild(`--output type=${type}`, "svc build --output writes files and archives");
    }
    if (type === "image" && attrs.push === "true") {
      throw cannotBuild("--output type=image,push=true", "docker push pushes the image");
    }
  }
  return all.flatMap(({ attrs }) => (attrs.name ?? "").split(",")).filter(Boolean);
}

/** What a solve results in, for the client. */
function answerOf({ digest, imageId }: BuildResult, names: string[]): Record<string, string> {
  return {
    "containerimage.digest": digest,
    "containerimage.config.digest": imageId,
    ...names.length > 0 && { "image.name": names.map(familiarName).join(",") },
  };
}

export class Control {
  readonly #solves = new Solves<SolveRequest>();

  constructor(private readonly api: DockerApi, private readonly sessions: BuildSessions) {}

  readonly served: readonly Served[] = [
    serveCall(ListWorkers, () => ({ record: [worker()] })),
    serveCall(Info, () => ({ version: worker().version })),
    serveCall(Solve, async (request, { signal }) => ({
      exporterResponse: await this.#solve(request, signal),
    })),
    serveStream(Status, async (call) => {
      for await (const { ref } of call.messages) {
        for await (const message of this.#solves.get(ref).status(call.signal)) {
          await call.send(message);
        }
        return;
      }
    }),
    serveStream(Prune, async (call) => {
      for await (const request of call.messages) {
        const choice = Object.entries(request).find(([, value]) => [value].flat().some(Boolean));
        if (choice) throw cannotPrune(choice.join("="));
        await call.send({ id: "svc gc", size: await collectAll(this.api, call.signal) });
        return;
      }
    }),
    serveStream(Session, async (call) => {
      const text = (name: string) => String(call.metadata[name] ?? "");
      const id = text("x-docker-expose-session-uuid");
      const methods = text("x-docker-expose-session-grpc-method").split(", ");
      await this.sessions.hold(tunnelOf(call), { id, methods }, call.signal);
    }),
    serveCall(Ping, () => ({
      frontendCaps: CAPS.map((id) => ({ id, enabled: true })),
      llbCaps: [],
      workers: [worker()],
    })),
    serveCall(FrontendSolve, async (request, call) => {
      const run = this.#solves.get(buildId(call));
      await this.#frontend(run, request, call.signal);
      return { result: { ref: { id: "svc" } } };
    }),
    serveCall(Return, ({ error }, call) => {
      const { returned } = this.#solves.get(buildId(call));
      if (error) returned.reject(new SvcError("build_failed", error.message, { help: "" }));
      else returned.resolve();
      return {};
    }),
  ];

  readonly #results = new WeakMap<SolveRun<SolveRequest>, BuildResult>();

  async #solve(request: SolveRequest, signal: AbortSignal): Promise<Record<string, string>> {
    const run = this.#solves.get(request.ref);
    try {
      refuseEntitlements(request.entitlements);
      exporterOf(request);
      run.request.resolve(request);
      if (request.frontend !== "") {
        const { frontend, frontendAttrs: frontendOpt, definition } = request;
        await this.#frontend(run, { frontend, frontendOpt, definition, cacheImports: [] }, signal);
      } else if (request.definition) throw cannotBuild("an LLB definition");
      else await waitFor(run.returned.promise, signal);
      const result = this.#results.get(run);
      return result ? answerOf(result, exporterOf(request)) : {};
    } catch (error) {
      run.request.reject(error);
      throw error;
    } finally {
      this.#solves.end(request.ref);
    }
  }

  async #frontend(
    run: SolveRun<SolveRequest>,
    { frontend, frontendOpt, definition, cacheImports }: FrontendRequest,
    signal: AbortSignal,
  ): Promise<void> {
    if (definition) throw cannotBuild("an LLB definition");
    if (!frontends.includes(frontend)) throw cannotBuild(`the frontend ${frontend}`);
    const request = await run.request.promise;
    const { ref, session, cache } = request;
    const imports = [...cache?.imports ?? [], ...cacheImports];
    const wanted = asked(frontendOpt, {
      ...{ imports, exports: cache?.exports ?? [], names: exporterOf(request) },
    });
    const trace = new Trace(ref);
    const client = await this.sessions.find(session, signal);
    const result = await buildOnce({
      ...{ api: this.api, client, asked: wanted, signal },
      onEvent: (event) => run.tell(trace.message(event)),
    });
    this.#results.set(run, result);
    for (const name of wanted.wish.names) {
      this.api.events.tell("image", "tag", result.imageId, { name });
    }
  }
}

function buildId({ metadata }: Pick<Answering<object, object>, "metadata">): string {
  const id = metadata[BUILD_ID];
  if (typeof id === "string" && id !== "") return id;
  throw invalid(`Cannot answer: the call has no ${BUILD_ID}`);
}
