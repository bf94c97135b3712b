/** A deploy backend whose deployments have ingress: whoever applies, lists or deletes need not think of it. */
import type { ApplyResult, DeploymentStatus } from "../../api/deployment.ts";
import type { DeploySpec } from "../../api/deploy_spec.ts";
import type { DeployBackend } from "../../deploy/backend.ts";
import type { ServerIngress } from "./ingress.ts";

export class IngressBackend implements DeployBackend {
  readonly name: string;
  readonly caps: DeployBackend["caps"];
  readonly ready?: DeployBackend["ready"];
  readonly #inner: DeployBackend;
  readonly #ingress: ServerIngress;

  constructor(inner: DeployBackend, ingress: ServerIngress) {
    this.name = inner.name;
    this.caps = inner.caps;
    if (inner.ready) this.ready = () => inner.ready!();
    this.#inner = inner;
    this.#ingress = ingress;
  }

  async apply(
    spec: DeploySpec,
    options?: Parameters<DeployBackend["apply"]>[1],
  ): Promise<ApplyResult> {
    const claim = this.#ingress.claim(spec);
    try {
      const result = await this.#inner.apply(spec, options);
      claim.commit();
      return { ...result, deployment: this.#ingress.tell(result.deployment) };
    } finally {
      claim.release();
    }
  }

  async status(name: string): Promise<DeploymentStatus | undefined> {
    const status = await this.#inner.status(name);
    return status && this.#ingress.tell(status);
  }

  async list(): Promise<DeploymentStatus[]> {
    return (await this.#inner.list()).map((status) => this.#ingress.tell(status));
  }

  specs(): Promise<DeploySpec[]> {
    return this.#inner.specs();
  }

  async delete(name: string, options?: { signal?: AbortSignal }): Promise<boolean> {
    const found = await this.#inner.delete(name, options);
    this.#ingress.table.delete(name);
    return found;
  }

  async power(
    name: string,
    action: "start" | "stop" | "restart",
    options?: { signal?: AbortSignal },
  ): Promise<DeploymentStatus> {
    return this.#ingress.tell(await this.#inner.power(name, action, options));
  }

  logs(name: string, options?: Parameters<DeployBackend["logs"]>[1]) {
    return this.#inner.logs(name, options);
  }

  dial(
    name: string,
    port: number,
    protocol: "tcp" | "udp",
    options?: { signal?: AbortSignal },
  ) {
    return this.#inner.dial(name, port, protocol, options);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#inner[Symbol.asyncDispose]();
  }
}
