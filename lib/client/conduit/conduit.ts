/**
 * How a session makes workloads reachable from this machine (SPEC.md "Conduit"): the mode, and what it opens.
 */
import type { PublishedPort } from "../../api/deployment.ts";
import type { IngressRoute } from "../../api/ingress.ts";
import { SvcError } from "../../base/errors.ts";
import type { Conduit as ConduitSettings } from "../profile/types.ts";
import type { PreparedIngress } from "./ingress.ts";
import type { Services } from "./services.ts";
import type { Socks5Options } from "./socks5.ts";

type RouteOf = NonNullable<Socks5Options["route"]>;

/** Local listeners are for this machine alone. */
const LOCAL = "127.0.0.1";

/** A local address that leads to workloads. */
export type Endpoint =
  /** One port of a deployment at `address` ("127.0.0.1:8080"). */
  | {
    kind: "port";
    deployment: string;
    port: number;
    protocol: "tcp" | "udp";
    address: string;
  }
  /** One address of a deployment's ingress; its host has to lead to `address`, by DNS or the proxy there. */
  | { kind: "ingress"; deployment: string; port: number; url: string; address: string }
  /** A proxy; a service is reached as `NAME` + `suffix`. */
  | { kind: "socks5"; address: string; suffix?: string };

/** A deployment to show, and the ports that it declares. */
export interface Shown {
  name: string;
  ports: readonly (Pick<PublishedPort, "container" | "protocol"> & {
    /** The local port to try first; default: the same number. */
    local?: number;
  })[];
  /** Routes of its ingress, if it has ingress. */
  ingress?: readonly IngressRoute[];
}

export interface ConduitOptions {
  /** "port-forward" or "socks5". */
  mode: string;
  services: Services;
  deployments: readonly Shown[];
  /** The `conduit` block of the profile. */
  settings: ConduitSettings;
  /** Serves the deployments' ingress on this machine; the caller disposes of it after the conduit. */
  ingress?: PreparedIngress;
  /** One line for a person. */
  warn: (text: string) => void;
}

export interface Conduit extends AsyncDisposable {
  readonly endpoints: readonly Endpoint[];
  /** Resolves when the conduit was closed; rejects where it broke by itself. */
  readonly closed: Promise<void>;
}

async function openSocksProxy(options: ConduitOptions, route?: RouteOf): Promise<Conduit> {
  const { DEFAULT_SERVICE_HOST_SUFFIX, DEFAULT_SOCKS5_LISTEN, openSocks5 } = await import(
    "./socks5.ts"
  );
  const { services, warn, settings: { socks5 = {} } } = options;
  const { listen = DEFAULT_SOCKS5_LISTEN, resolve: rules = [] } = socks5;
  const suffix = socks5["service-host-suffix"] ?? DEFAULT_SERVICE_HOST_SUFFIX;
  const bareServiceNames = socks5["bare-service-names"];
  const proxy = await openSocks5({
    ...{ listen, services, rules, suffix, bareServiceNames, route, warn },
  });
  const { address } = proxy;
  return {
    // With rules, the suffix has no effect.
    endpoints: [{ kind: "socks5", address, ...(rules.length === 0 && { suffix }) }],
    closed: proxy.closed,
    [Symbol.asyncDispose]: () => proxy[Symbol.asyncDispose](),
  };
}

/** Each port once, however many instances publish it. */
function portsOf({ ports }: Shown): Shown["ports"] {
  const byKey = new Map(ports.map((port) => [`${port.container}/${port.protocol}`, port]));
  return [...byKey.values()];
}

async function openForwards(options: ConduitOptions): Promise<Conduit> {
  const { forwardPort } = await import("./port_forward.ts");
  const { sparingly } = await import("./told.ts");
  const { services, warn } = options;
  const tell = sparingly(warn);
  await using opened = new AsyncDisposableStack();
  const endpoints: Endpoint[] = [];
  for (const deployment of options.deployments) {
    const { name } = deployment;
    for (const { container: port, protocol, local = port } of portsOf(deployment)) {
      if (protocol === "sctp") {
        warn(`port ${port}/sctp of ${name} is not forwarded: only tcp and udp are`);
        continue;
      }
      const listen = (at: number) =>
        forwardPort({
          ...{ services, name, port, protocol, address: LOCAL, local: at },
          onError: ({ message }) => tell(`${name} ${port}`, message),
        });
      // Where the port is taken or not permitted for this user, any free one.
      const forward = opened.use(
        await listen(local).catch((error) => {
          if (error instanceof SvcError) return listen(0);
          throw error;
        }),
      );
      const address = `${LOCAL}:${forward.local}`;
      endpoints.push({ kind: "port", deployment: name, port, protocol, address });
    }
  }
  const closed = Promise.withResolvers<void>();
  const kept = opened.move();
  return {
    endpoints,
    closed: closed.promise,
    async [Symbol.asyncDispose]() {
      await kept.disposeAsync();
      closed.resolve();
    },
  };
}

/**
 * Opens the conduit. Throws `address_in_use` or `config_invalid` where it cannot listen. Disposing closes it.
 */
export async function openConduit(options: ConduitOptions): Promise<Conduit> {
  const { ingress, deployments, services } = options;
  const socks = options.mode === "socks5";
  const routes = deployments.flatMap(({ ingress = [] }) => ingress);
  if (!ingress || routes.length === 0) {
    return socks ? await openSocksProxy(options) : await openForwards(options);
  }
  const { ingressUrls, INGRESS_PORTS, routeTo } = await import("./ingress_urls.ts");
  await using opened = new AsyncDisposableStack();
  // Through a proxy any port will do: the proxy leads to whichever port was taken.
  const ports = socks ? { http: 0, https: 0 } : INGRESS_PORTS;
  const { address } = opened.use(await ingress.open(routes, services, ports));
  const inner = opened.use(
    socks ? await openSocksProxy(options, routeTo(routes, address)) : await openForwards(options),
  );
  const proxy = inner.endpoints.find(({ kind }) => kind === "socks5")?.address;
  const kept = opened.move();
  return {
    endpoints: [...inner.endpoints, ...ingressUrls(routes, address, proxy)],
    closed: inner.closed,
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}
