/** The deployment routes: list, status, apply, delete, power. */
import { SvcError } from "../../base/errors.ts";
import { LOGINS_HEADER, readLogins } from "../../api/build_logins.ts";
import {
  APPLY_UNTIL,
  type ApplyEvent,
  type ApplyResult,
  type DeploymentStatus,
} from "../../api/deployment.ts";
import { endpoint } from "../../api/endpoints.ts";
import type { DeploySpec } from "../../api/deploy_spec.ts";
import { type DeployRequest, requireAbilities } from "../../deploy/services.ts";
import { CERTIFIED_TYPE } from "../../api/ingress_certificates.ts";
import { acceptSpec, MAX_SPEC, parseSpecJson, parseSpecText } from "../accept_spec.ts";
import type { ManagementDeps } from "../deps.ts";
import { describeError } from "../error_response.ts";
import { json, readText } from "../json.ts";
import { NDJSON_TYPE, pushEvents } from "../ndjson.ts";
import { Query } from "../query.ts";
import type { Context, Route } from "../route.ts";
import { shownTo } from "../status_shown.ts";

export function unknownDeployment(attempt: string, name: string): SvcError {
  return new SvcError("not_found", `Cannot ${attempt} ${name}: there is no such deployment`, {
    help: "`svc ps` lists the deployments",
  });
}

/** The parts of an apply's body. */
interface Wanted extends DeployRequest {
  spec: DeploySpec;
}

/** The body as a spec, JSON or YAML by its content type. `source` is its name in errors. */
async function readWanted(request: Request, source?: string): Promise<Wanted> {
  const text = await readText(request, MAX_SPEC, "deployment spec");
  const type = request.headers.get("content-type") ?? "";
  if (type.split(";")[0].trim().toLowerCase() === CERTIFIED_TYPE) {
    const { parseCertified } = await import("../ingress/certificates.ts");
    return await parseCertified(text);
  }
  return { spec: await (/yaml/i.test(type) ? parseSpecText(text, source) : parseSpecJson(text)) };
}

async function list(deps: ManagementDeps, { identity }: Context): Promise<Response> {
  const all: DeploymentStatus[] = await (await deps.deploy.backend()).list();
  const shown = all.map((one) => shownTo(deps, identity, one));
  return json(shown.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0)));
}

async function status(
  deps: ManagementDeps,
  { identity, params: { name } }: Context,
): Promise<Response> {
  const found = await (await deps.deploy.backend()).status(name);
  if (!found) throw unknownDeployment("show", name);
  return json(shownTo(deps, identity, found));
}

async function spec(
  { deploy: { backend } }: ManagementDeps,
  { params: { name } }: Context,
): Promise<Response> {
  const found = await (await backend()).spec(name);
  if (!found) throw unknownDeployment("show the spec of", name);
  return json(found);
}

async function apply(deps: ManagementDeps, context: Context): Promise<Response> {
  const { request, url, identity, signal, params: { name } } = context;
  const query = new Query(url);
  const source = query.text("source");
  const asked = { until: query.choice("until", APPLY_UNTIL), recreate: query.bool("recreate") };
  const { spec, ...beside } = await readWanted(request, source);
  if (name !== undefined && spec.name !== name) {
    throw new SvcError(
      "spec_invalid",
      `Cannot use deployment spec: name: it says ${JSON.stringify(spec.name)}, the path ${
        JSON.stringify(name)
      }`,
    );
  }
  const accepted = acceptSpec(spec, identity);
  const logins = readLogins(request.headers.get(LOGINS_HEADER));
  const engine = await deps.deploy.backend();
  // Checked here, so that the error is a status and not an event.
  requireAbilities(engine, beside);
  const run = async (onProgress?: (message: string) => void): Promise<ApplyResult> => {
    // Reserves the name: a session's deployment is changed by its session alone.
    using _claim = deps.sessions?.claim(accepted.name);
    const mayPull = deps.access.allows(identity, "pull");
    return await engine.apply(accepted, beside, {
      ...{ onProgress, signal, mayPull, logins },
      ...asked,
    });
  };
  if (!(request.headers.get("accept") ?? "").includes(NDJSON_TYPE)) {
    const result = await run();
    return json(result, { status: result.action === "created" ? 201 : 200 });
  }
  return pushEvents<ApplyEvent>(async (send) => {
    const result = await run((message) => send({ type: "progress", message }));
    send({ type: "result", result });
  }, { describe: (error) => describeError(error, context) });
}

async function remove(
  deps: ManagementDeps,
  { url, params: { name } }: Context,
): Promise<Response> {
  const query = new Query(url);
  const engine = await deps.deploy.backend();
  const drop = async () => {
    const found = await engine.delete(name);
    // The removal of a deployment without instances causes no event.
    deps.sessions?.look(name);
    return found;
  };
  if (query.bool("wait") ?? true) {
    // Not tied to the client's connection: a removal that has begun should finish.
    if (!await drop()) throw unknownDeployment("delete", name);
    return new Response(null, { status: 204 });
  }
  if (!await engine.status(name)) throw unknownDeployment("delete", name);
  const end = deps.lifecycle.begin();
  drop().catch(() => {/* the deployment's status carries it */}).finally(end);
  return new Response(null, { status: 202 });
}

export function deploymentRoutes(deps: ManagementDeps): Route[] {
  const { backend } = deps.deploy;

  const power = (action: "start" | "stop" | "restart"): Route => ({
    ...endpoint(`POST /deployments/{name}/${action}`),
    action: "deploy",
    help: {
      start: "Starts a stopped deployment; a running one is left alone.",
      stop: "Stops a deployment; it stays stopped until it is started.",
      restart: "Stops and starts a deployment.",
    }[action],
    handler: async ({ params: { name } }) => {
      return json(await (await backend()).power(name, action));
    },
  });

  return [
    {
      ...endpoint("GET /deployments"),
      action: "read",
      help: "Every deployment's status, by name.",
      handler: (context) => list(deps, context),
    },
    {
      ...endpoint("GET /deployments/{name}"),
      action: "read",
      help: "One deployment's status.",
      handler: (context) => status(deps, context),
    },
    {
      ...endpoint("GET /deployments/{name}/spec"),
      // It may hold what no process of the workload sees, such as the options that mount a volume.
      action: "deploy",
      help: "The DeploySpec that was applied last; any server takes it as it is.",
      handler: (context) => spec(deps, context),
    },
    {
      ...endpoint("PUT /deployments/{name}"),
      action: "deploy",
      help:
        "Applies the DeploySpec in the body (JSON, or YAML by its content type) and waits until it " +
        `runs. As \`${CERTIFIED_TYPE}\` the body is ` +
        "`{spec, certificates: [{hosts, certificate, key}], files: [{target, content, mode, uid, gid, secret}]}`: " +
        "certificates for backends with the ability `ingressCertificates`, files (base64) that the server keeps " +
        `and mounts. \`X-Svc-Registry-Logins\` has the caller's logins (JSON in base64). With \`Accept: ${NDJSON_TYPE}\` the answer is events: progress, then result or error.`,
      handler: (context) => apply(deps, context),
    },
    {
      ...endpoint("POST /deployments"),
      action: "deploy",
      help: "Like PUT, of the name that the spec gives. `source` names the body in errors.",
      handler: (context) => apply(deps, context),
    },
    {
      ...endpoint("DELETE /deployments/{name}"),
      action: "deploy",
      help: "Stops and removes a deployment; named volumes stay. `wait=false` answers 202 at once.",
      handler: (context) => remove(deps, context),
    },
    power("start"),
    power("stop"),
    power("restart"),
  ];
}
