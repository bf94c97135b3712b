/** Ingress that the server routes itself: the hosts of its deployments, the proxy that serves them, its door. */
import type { DeploySpec } from "../../api/deploy_spec.ts";
import type { DeploymentStatus } from "../../api/deployment.ts";
import type { IngressEndpoint, IngressRoute } from "../../api/ingress.ts";
import type { ServerInfo } from "../../api/info.ts";
import type { Logger } from "../../base/log.ts";
import { formatAddress, parseAddress } from "../../config/address.ts";
import type { DeployBackend } from "../../deploy/backend.ts";
import { baseDomain } from "../../ingress/host_name.ts";
import { type IngressDefaults, ingressRoutes } from "../../ingress/hosts.ts";
import { createIngressProxy, type IngressProxy } from "../../ingress/proxy.ts";
import { type Claim, IngressTable } from "../../ingress/table.ts";
import type { Lifecycle } from "../lifecycle.ts";
import { IngressBackend } from "./backend.ts";
import { type FrontDoor, openFrontDoor } from "./front_door.ts";

export interface ServerIngressOptions {
  config: { ingressDomain?: string; ingressEnforceDomain: boolean };
  /** Constructed on first use; what it throws is the answer to a request. */
  backend: () => Promise<DeployBackend>;
  log: Logger;
}

export class ServerIngress implements Disposable {
  readonly table = new IngressTable();
  readonly proxy: IngressProxy;
  /** Undefined: it is not open. */
  #door: FrontDoor | undefined;
  readonly #backend: () => Promise<DeployBackend>;
  readonly #defaults: IngressDefaults;
  readonly #log: Logger;

  /** Throws `config_invalid` for a domain that is none. */
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

  /**
   * What a spec that is to be applied asks for is its deployment's, if nobody else has it. Throws what
   * stands in the way: nothing has been done for the spec yet.
   */
  claim(spec: DeploySpec): Claim {
    return this.table.claim(spec.name, ingressRoutes(spec, this.#defaults));
  }

  /** The backend with ingress; the routes of the deployments it has are known when it resolves. */
  async over(backend: DeployBackend): Promise<DeployBackend> {
    for (const spec of await backend.specs()) {
      try {
        this.claim(spec).commit();
      } catch (error) {
        // An earlier server took it; it runs, and is not to be reached where this one would refuse it.
        this.#log.warn("a deployment's ingress is not served", { deployment: spec.name, error });
      }
    }
    return new IngressBackend(backend, this);
  }

  /**
   * Opens the front door, if there is to be one; that it cannot be opened is told in the log. The server's
   * end waits for requests that are under way.
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
    // Where nothing was taken over at the start, the deployments are not known yet.
    this.#backend().catch((error) => this.#log.warn("ingress knows no deployments", { error }));
  }

  /** The status with where the deployment is reached. */
  tell(status: DeploymentStatus): DeploymentStatus {
    const routes = this.table.of(status.name);
    return routes.length === 0
      ? status
      : { ...status, ingress: routes.map((route) => this.#endpoint(route)) };
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
