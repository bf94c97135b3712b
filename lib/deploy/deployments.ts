/** The deployments of a server: a backend together with svc's services. */
import type { DeploySpec } from "../api/deploy_spec.ts";
import type { ApplyResult, DeploymentStatus } from "../api/deployment.ts";
import type { Logger } from "../base/log.ts";
import type { ApplyOptions, DeployBackend } from "./backend.ts";
import { type DeployRequest, type DeployService, DeployServices } from "./services.ts";

/** A backend whose callers know nothing of services: the services decide what is attached. */
export interface Deployments extends Omit<DeployBackend, "apply"> {
  apply(spec: DeploySpec, request?: DeployRequest, options?: ApplyOptions): Promise<ApplyResult>;
}

/** When it resolves, the services know all existing deployments. */
export async function openDeployments(
  engine: DeployBackend,
  services: readonly DeployService[],
  log: Logger,
): Promise<Deployments> {
  const added = new DeployServices(services, log);
  const known = await engine.list();
  // Where two deployments claim the same thing, the older one keeps it.
  for (const { name } of known.sort((a, b) => a.createdAt < b.createdAt ? -1 : 1)) {
    const spec = await engine.spec(name);
    if (spec) await added.adopt(spec);
  }
  return new ServedDeployments(engine, added);
}

class ServedDeployments implements Deployments {
  readonly name: string;
  readonly caps: DeployBackend["caps"];
  readonly ready?: DeployBackend["ready"];
  readonly about?: DeployBackend["about"];
  readonly #engine: DeployBackend;
  readonly #services: DeployServices;

  constructor(engine: DeployBackend, services: DeployServices) {
    this.name = engine.name;
    this.caps = engine.caps;
    if (engine.ready) this.ready = () => engine.ready!();
    if (engine.about) this.about = () => engine.about!();
    this.#engine = engine;
    this.#services = services;
  }

  async apply(
    spec: DeploySpec,
    request: DeployRequest = {},
    options?: ApplyOptions,
  ): Promise<ApplyResult> {
    const { action, deployment } = await this.#services.around(
      spec,
      request,
      this.#engine,
      (attachments) => this.#engine.apply(spec, attachments, options),
    );
    return { action, deployment: this.#services.describe(deployment) };
  }

  async status(name: string): Promise<DeploymentStatus | undefined> {
    const status = await this.#engine.status(name);
    return status && this.#services.describe(status);
  }

  async list(): Promise<DeploymentStatus[]> {
    return (await this.#engine.list()).map((status) => this.#services.describe(status));
  }

  async delete(...[name, options]: Parameters<DeployBackend["delete"]>): Promise<boolean> {
    const found = await this.#engine.delete(name, options);
    await this.#services.removed(name);
    return found;
  }

  async power(...args: Parameters<DeployBackend["power"]>): Promise<DeploymentStatus> {
    return this.#services.describe(await this.#engine.power(...args));
  }

  spec(name: string) {
    return this.#engine.spec(name);
  }

  events(signal: AbortSignal) {
    return this.#engine.events(signal);
  }

  logs(...args: Parameters<DeployBackend["logs"]>) {
    return this.#engine.logs(...args);
  }

  dial(...args: Parameters<DeployBackend["dial"]>) {
    return this.#engine.dial(...args);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#engine[Symbol.asyncDispose]();
  }
}
