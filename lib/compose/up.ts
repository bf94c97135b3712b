/** Makes a project's services run as its files say. */
import type { DeliveredFile } from "../api/delivered_files.ts";
import type { DeploySpec } from "../api/deploy_spec.ts";
import type { ApplyResult, DeploymentStatus } from "../api/deployment.ts";
import { SvcError } from "../base/errors.ts";
import type { Client } from "../client/client.ts";
import { type ApplySettings, powerDeployment } from "../client/deployments.ts";
import { Hooks } from "./hooks.ts";
import { type Condition, FULFILLED, isFulfilled } from "./conditions.ts";
import { deliveredFiles } from "./delivered.ts";
import { deploymentName, LABELS } from "./names.ts";
import { inOrder, needsOf } from "./order.ts";
import type { LoadedProject } from "./project.ts";
import type { Dependency, Service } from "./service.ts";
import { Resources } from "./resources.ts";
import { serviceSpec } from "./service_spec.ts";
import { containersOf, isUp, nameOf, type ServiceState, serviceState } from "./state.ts";
import { bringUpProvided, checkProvider } from "./provider.ts";
import { done, failing, type Report, working } from "./steps.ts";
import type { Surroundings } from "./subject.ts";
import { checkService } from "./unsupported.ts";
import type { Watch } from "./watch.ts";

export interface UpOptions {
  loaded: LoadedProject;
  /** The services to bring up, their dependencies among them. */
  services: readonly string[];
  /** Numbers of instances that replace those of the files. */
  scale: ReadonlyMap<string, number>;
  /** "changed": services whose spec or image differs. "never": none that exists. */
  recreate: "changed" | "always" | "never";
  /** These are not recreated unless they changed, whatever `recreate` says: dependencies of the chosen ones. */
  settled: ReadonlySet<string>;
  /** "created": everything is made and nothing started. */
  until: "started" | "created";
  surroundings: Surroundings;
  /** Services of the project that are there. */
  there: readonly ServiceState[];
  client: Client;
  watch: Watch;
  signal: AbortSignal;
  report: Report;
  warn: (text: string) => void;
  /** Applies one service's spec. */
  apply: (
    service: string,
    spec: DeploySpec,
    settings: ApplySettings,
    onProgress: (message: string) => void,
  ) => Promise<ApplyResult>;
  /** Called with each service once its containers are there. */
  onUp?: (state: ServiceState, result?: ApplyResult) => void;
}

/** The configs and secrets of these services, by service: what cannot be read is told before anything is done. */
export async function filesOf(
  { loaded, services, surroundings }: Pick<UpOptions, "loaded" | "services" | "surroundings">,
): Promise<Map<string, DeliveredFile[]>> {
  const files = new Map<string, DeliveredFile[]>();
  for (const name of services) {
    const service = loaded.project.services[name];
    files.set(name, await deliveredFiles({ loaded, name, service, surroundings }));
  }
  return files;
}

/** The specs of all services but the provided ones: what cannot be honoured is told before anything is done. */
export function specsOf(
  { loaded, services, scale, surroundings, warn }: Pick<
    UpOptions,
    "loaded" | "services" | "scale" | "surroundings" | "warn"
  >,
): Map<string, DeploySpec> {
  const specs = new Map<string, DeploySpec>();
  const names = new Map<string, string>();
  for (const name of services) {
    const given = loaded.project.services[name];
    if (given.provider) {
      checkProvider(loaded, name, given.provider);
      continue;
    }
    for (const warning of checkService(loaded, name, given)) warn(warning);
    const replicas = scale.get(name);
    const { deploy, ...rest } = given;
    const service = replicas === undefined
      ? given
      : { ...rest, scale: replicas, ...(deploy && { deploy: { ...deploy, replicas } }) };
    const spec = serviceSpec({ loaded, name, service, surroundings });
    const other = names.get(spec.name);
    if (other !== undefined) {
      throw new SvcError("conflict", `Cannot deploy ${name}: ${other} is called ${spec.name} too`);
    }
    names.set(spec.name, name);
    specs.set(name, spec);
  }
  return specs;
}

class Bringing {
  readonly #options: UpOptions;
  readonly #resources: Resources;
  readonly #hooks: Hooks;
  readonly #there: ReadonlyMap<string, ServiceState>;
  /** Variables for the dependents of provided services, by service. */
  readonly provided = new Map<string, Record<string, string>>();

  constructor(options: UpOptions, resources: Resources) {
    this.#options = options;
    this.#resources = resources;
    this.#hooks = new Hooks(options.client, options.loaded);
    this.#there = new Map(
      options.there.filter(({ oneOff }) => !oneOff).map((state) => [state.service, state]),
    );
  }

  /** Waits for what the service needs of another one. */
  async #need(name: string, other: string, { condition, required }: Dependency): Promise<void> {
    if (condition === "service_started" || this.#options.until === "created") return;
    const { loaded: { project }, warn } = this.#options;
    // Its provider has ended: there is nothing more to wait for.
    if (project.services[other].provider) return;
    try {
      await awaitCondition(this.#options, deploymentName(project.name, other), condition);
    } catch (error) {
      if (required || !(error instanceof SvcError)) throw error;
      warn(`${name} starts without ${other}, which it does not require: ${error.message}`);
    }
  }

  async service(name: string, plain: DeploySpec | undefined): Promise<void> {
    const { loaded: { project }, services, onUp, until, signal } = this.#options;
    for (const [other, need] of Object.entries(project.services[name].depends_on ?? {})) {
      if (services.includes(other)) await this.#need(name, other, need);
    }
    if (!plain) {
      this.provided.set(name, await bringUpProvided(name, this.#options));
      return;
    }
    const spec = withProvided(project.services[name], plain, this.provided);
    const there = this.#there.get(name);
    const result = there && this.#options.recreate === "never" && there.status.instances.length > 0
      ? await this.#start(there)
      : await this.#apply(name, spec, there);
    const state = serviceState(result.deployment);
    if (!state) return;
    onUp?.(state, result);
    if (until === "created") return;
    const before = new Map(there?.status.instances.map((one) => [one.id, one]));
    await this.#hooks.afterStart(state, signal, ({ instance }) => {
      const earlier = before.get(instance.id);
      return !earlier || !isUp(earlier) || earlier.startedAt !== instance.startedAt;
    });
  }

  async #start(there: ServiceState): Promise<ApplyResult> {
    const { client, report, until } = this.#options;
    const idle = containersOf(there).filter(({ instance }) => !isUp(instance));
    const ids = idle.map(({ name }) => `Container ${name}`);
    if (until === "created" || idle.length === 0) {
      for (const { name } of containersOf(there)) done(report, `Container ${name}`, "Running");
      return { action: "unchanged", deployment: there.status };
    }
    for (const id of ids) working(report, id, "Starting");
    const deployment = await powerDeployment(client, there.status.name, "start")
      .catch(failing(report, ids));
    for (const id of ids) done(report, id, "Started");
    return { action: "unchanged", deployment };
  }

  async #apply(
    name: string,
    spec: DeploySpec,
    there: ServiceState | undefined,
  ): Promise<ApplyResult> {
    const { report, warn, until, recreate, settled, loaded } = this.#options;
    const known = new Map(
      there ? containersOf(there).map((one) => [`Container ${one.name}`, one.instance]) : [],
    );
    const subject = there ?? {
      ...{ project: loaded.project.name, service: name },
      container: loaded.project.services[name].container_name,
      ...{ dependsOn: [], oneOff: false, status: { name: spec.name } as ServiceState["status"] },
    };
    const ids = Array.from(
      { length: spec.replicas },
      (_, replica) => `Container ${nameOf(subject, `${spec.name}-${replica}`)}`,
    );
    const fresh = ids.filter((id) => !known.has(id));
    const begun = this.#resources.begin(spec);
    for (const id of fresh) working(report, id, "Creating");
    const onProgress = (message: string) => {
      if (!/^starting /.test(message)) return;
      for (const id of fresh) done(report, id, "Created");
      if (until === "started") { for (const id of fresh) working(report, id, "Starting"); }
    };
    const result = await this.#options.apply(name, spec, {
      until,
      recreate: recreate === "always" && !settled.has(name),
    }, onProgress).catch(failing(report, [...fresh, ...begun]));
    this.#resources.end(begun);
    for (const warning of result.deployment.warnings) warn(`${name}: ${warning}`);
    this.#tell(result, { ids, known });
    return result;
  }

  /** Tells what became of the containers. */
  #tell(
    { action, deployment }: ApplyResult,
    { ids, known }: {
      ids: readonly string[];
      known: ReadonlyMap<string, Parameters<typeof isUp>[0]>;
    },
  ): void {
    const { report, until } = this.#options;
    const state = serviceState(deployment);
    const now = new Map(
      state ? containersOf(state).map(({ name, instance }) => [`Container ${name}`, instance]) : [],
    );
    for (const id of ids) {
      const before = known.get(id);
      // The same run as before: nothing was done to it.
      if (before && isUp(before) && before.startedAt === now.get(id)?.startedAt) {
        done(report, id, "Running");
        continue;
      }
      const made = before && action === "unchanged" ? undefined : before ? "Recreated" : "Created";
      if (made === "Recreated") done(report, id, made);
      done(report, id, until === "started" ? "Started" : made ?? "Created");
    }
    for (const id of known.keys()) if (!ids.includes(id)) done(report, id, "Removed");
  }
}

/** The spec with the variables that the providers of its service's dependencies have set. */
export function withProvided(
  { depends_on: needs = {} }: Service,
  spec: DeploySpec,
  provided: ReadonlyMap<string, Record<string, string>>,
): DeploySpec {
  const set = Object.keys(needs).map((name) => provided.get(name) ?? {});
  return { ...spec, env: Object.assign({}, spec.env, ...set) };
}

/** Waits until the condition is true of a service's containers. Throws `deploy_failed` where it will not be. */
export async function awaitCondition(
  { watch, report, signal }: Pick<UpOptions, "watch" | "report" | "signal">,
  deployment: string,
  condition: Condition,
): Promise<void> {
  let ids: string[] = [];
  await watch.wait(deployment, (status) => {
    const state = status && serviceState(status);
    const now = state ? containersOf(state).map(({ name }) => `Container ${name}`) : [];
    for (const id of now) if (!ids.includes(id)) working(report, id, "Waiting");
    ids = now;
    return isFulfilled(condition, status);
  }, signal).catch(failing(report, ids));
  for (const id of ids) done(report, id, FULFILLED[condition]);
}

/** Throws `conflict` where a deployment of somebody else has the name of one of these. */
export function requireOwn(
  project: string,
  specs: ReadonlyMap<string, DeploySpec>,
  all: readonly Pick<DeploymentStatus, "name" | "labels">[],
): void {
  for (const [service, { name }] of specs) {
    const there = all.find((one) => one.name === name);
    const owner = there?.labels?.[LABELS.project];
    if (!there || owner === project) continue;
    const whose = owner === undefined ? "no project" : `the project ${owner}`;
    throw new SvcError(
      "conflict",
      `Cannot deploy the service ${service}: there is a deployment ${name} already, of ${whose}`,
      { help: "choose another project name with -p, or remove that deployment" },
    );
  }
}

/**
 * Brings the services up in the order of their dependencies. After a failure nothing new is begun, and what runs is
 * left running; the first error is thrown. Services without a spec are provided ones. Resolves to the variables
 * that their providers set, by service.
 */
export async function up(
  options: UpOptions,
  specs: ReadonlyMap<string, DeploySpec>,
): Promise<ReadonlyMap<string, Record<string, string>>> {
  const { loaded, services, report } = options;
  const needs = needsOf(loaded, services);
  const resources = await Resources.open(options.client, loaded, report, specs);
  const bringing = new Bringing(options, resources);
  await inOrder(needs, (name) => {
    options.signal.throwIfAborted();
    return bringing.service(name, specs.get(name));
  });
  return bringing.provided;
}
