/** The server's own ingress: the hosts of its deployments, the proxy that serves them, and the front door. */
import type { DeploySpec } from "../../api/deploy_spec.ts";
import type { DeploymentStatus } from "../../api/deployment.ts";
import type { IngressEndpoint, IngressRoute } from "../../api/ingress.ts";
import type { ServerInfo } from "../../api/info.ts";
import type { Logger } from "../../base/log.ts";
import { formatAddress, parseAddress } from "../../config/address.ts";
import type { Deployments } from "../../deploy/deployments.ts";
import type { Claim, DeployRequest, DeployService } from "../../deploy/services.ts";
import { baseDomain } from "../../ingress/host_name.ts";
import { type IngressDefaults, ingressRoutes } from "../../ingress/hosts.ts";
import { createIngressProxy, type IngressProxy } from "../../ingress/proxy.ts";
import { IngressTable } from "../../ingress/table.ts";
import type { Lifecycle } from "../lifecycle.ts";
import { type FrontDoor, openFrontDoor } from "./front_door.ts";

export interface ServerIngressOptions {
  config: { ingressDomain?: string; ingressEnforceDomain: boolean };
  /** Constructed on first use; an error is the answer to the request that needed it. */
  backend: () => Promise<Deployments>;
  log: Logger;
}

export class ServerIngress implements DeployService, Disposable {
  readonly name = "ingress";
  readonly table = new IngressTable();
  readonly proxy: IngressProxy;
  /** Undefined: the front door is not open. */
  #door: FrontDoor | undefined;
  readonly #backend: () => Promise<Deployments>;
  readonly #defaults: IngressDefaults;
  readonly #log: Logger;

  /** Throws `config_invalid` for a malformed domain. */
  constructor({ config, backend, log }: ServerIngressOptions) {
    const { ingressDomain, ingressEnforceDomain: enforceDomain } = config;
    const domain = ingressDomain === undefined
      ? undefined
      : baseDomain(ingressDomain, "SVC_INGRESS_DOMAIN", "config_invalid");
    if (enforceDomain && domain === undefined) {
      log.warn("SVC_INGRESS_ENFORCE_DOMAIN changes nothing without SVC_INGRESS_DOMAIN");
    }
    this.#defaults = { domain, enforceDomain };
    this.#backend = backend;
    this.#log = log;
    this.proxy = createIngressProxy({
      match: (host, path) => this.table.match(host, path),
      dial: async ({ deployment, port }, signal) =>
        await (await backend()).dial(deployment, port, "tcp", { signal }),
      log,
    });
  }

  /** Claims the spec's hosts and paths. Certificates go on to the backend, for a cluster's own ingress. */
  claim(spec: DeploySpec, { certificates }: DeployRequest): Claim {
    const routes = this.table.claim(spec.name, ingressRoutes(spec, this.#defaults));
    return { ...routes, contribute: () => ({ ...(certificates && { certificates }) }) };
  }

  /** The URLs at which the deployment is reached. */
  describe(name: string): Partial<DeploymentStatus> {
    const routes = this.table.of(name);
    return routes.length === 0 ? {} : { ingress: routes.map((route) => this.#endpoint(route)) };
  }

  removed(name: string): void {
    this.table.delete(name);
  }

  /**
   * Opens the front door where one is configured; a failure is logged. The server's shutdown waits for requests
   * under way.
   */
  async open(listen: string | undefined, lifecycle: Lifecycle): Promise<void> {
    lifecycle.stopping.addEventListener("abort", () => {
      this.#door?.[Symbol.dispose]();
      const end = this.proxy.inFlight > 0 ? lifecycle.begin() : () => {};
      void this.proxy.drain().finally(end);
    }, { once: true });
    if (listen === undefined) return;
    const address = parseAddress(listen, "SVC_INGRESS_LISTEN");
    this.#door = await openFrontDoor({ address, proxy: this.proxy, log: this.#log });
    // Where no workloads were taken over at the start, the backend is opened here to learn the deployments.
    this.#backend().catch((error) =>
      this.#log.warn("ingress cannot list the deployments", { error })
    );
  }

  #endpoint(route: IngressRoute): IngressEndpoint {
    if (!this.#door) return { ...route };
    const { port } = this.#door.address;
    return { ...route, url: `http://${route.host}${port === 80 ? "" : `:${port}`}${route.path}` };
  }

  info(): ServerInfo["ingress"] {
    const { domain, enforceDomain } = this.#defaults;
    return {
      enabled: true,
      ...(domain !== undefined && { domain, enforceDomain }),
      ...(this.#door && { listen: formatAddress(this.#door.address) }),
    };
  }

  [Symbol.dispose](): void {
    this.#door?.[Symbol.dispose]();
    this.proxy[Symbol.dispose]();
  }
}
