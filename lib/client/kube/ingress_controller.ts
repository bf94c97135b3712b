/** The Service of a cluster's ingress controller: named, or found under the names that controllers come with. */
import { SvcError } from "../../base/errors.ts";
import type { KubeApi } from "./api.ts";

/** The controller as a person or the server describes it; absent members are looked up. */
export interface ControllerChoice {
  namespace?: string;
  service?: string;
  httpPort?: number;
  httpsPort?: number;
}

export interface ControllerService {
  namespace: string;
  service: string;
  /** Port of the Service for the scheme; absent: it has none. */
  httpPort?: number;
  httpsPort?: number;
}

/** Names under which the projects' charts and the distributions install controllers. */
const WELL_KNOWN: readonly (readonly [namespace: string, service: string])[] = [
  ["ingress-nginx", "ingress-nginx-controller"],
  ["kube-system", "traefik"],
  ["traefik", "traefik"],
  ["kube-system", "rke2-ingress-nginx-controller"],
  ["haproxy-controller", "haproxy-kubernetes-ingress"],
  ["projectcontour", "envoy"],
  ["kong", "kong-gateway-proxy"],
  ["istio-system", "istio-ingressgateway"],
];

/** Port names that controllers use in their Services, and the usual number. */
const PORTS = {
  http: { names: ["http", "web", "http2"], usual: 80 },
  https: { names: ["https", "websecure"], usual: 443 },
};

interface Service {
  spec?: { ports?: { port: number; name?: string; protocol?: string }[] };
}

function candidates({ namespace, service }: ControllerChoice, own: string): [string, string][] {
  if (service !== undefined) return [[namespace ?? own, service]];
  if (namespace === undefined) return WELL_KNOWN.map(([where, name]) => [where, name]);
  return [...new Set(WELL_KNOWN.map(([, name]) => name))].map((name) => [namespace, name]);
}

async function look(api: KubeApi, [namespace, service]: [string, string]) {
  const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/services/${
    encodeURIComponent(service)
  }`;
  try {
    return await api.json<Service>("GET", path);
  } catch (error) {
    // A namespace that the caller may not read is treated as one without the Service.
    if (error instanceof SvcError && ["not_found", "denied"].includes(error.code)) return undefined;
    throw error;
  }
}

function portsOf({ spec: { ports = [] } = {} }: Service, choice: ControllerChoice, where: string) {
  const tcp = ports.filter(({ protocol = "TCP" }) => protocol === "TCP");
  const port = (scheme: "http" | "https", chosen: number | undefined): number | undefined => {
    const { names, usual } = PORTS[scheme];
    if (chosen === undefined) {
      const named = tcp.find(({ name = "" }) => names.includes(name));
      return (named ?? tcp.find(({ port }) => port === usual))?.port;
    }
    if (tcp.some(({ port }) => port === chosen)) return chosen;
    const has = tcp.map(({ port }) => port).join(", ") || "none";
    throw new SvcError(
      "not_found",
      `Cannot use the ingress controller ${where}: it has no port ${chosen} for ${scheme}, but ${has}`,
      { help: `correct conduit.ingress.controller.${scheme}-port` },
    );
  };
  const [httpPort, httpsPort] = [port("http", choice.httpPort), port("https", choice.httpsPort)];
  if (httpPort !== undefined || httpsPort !== undefined) return { httpPort, httpsPort };
  throw new SvcError(
    "not_found",
    `Cannot use the ingress controller ${where}: it has no port for http or https`,
    { help: "name them in conduit.ingress.controller.http-port and https-port" },
  );
}

/** Throws `not_found` where the controller does not exist, or lacks the chosen port. */
export async function findController(
  api: KubeApi,
  choice: ControllerChoice,
): Promise<ControllerService> {
  const places = candidates(choice, api.namespace);
  for (const place of places) {
    const found = await look(api, place);
    if (!found) continue;
    const [namespace, service] = place;
    return { namespace, service, ...portsOf(found, choice, place.join("/")) };
  }
  const looked = places.map((place) => place.join("/")).join(", ");
  throw new SvcError(
    "not_found",
    `Cannot find the cluster's ingress controller: there is no Service ${looked}, or it may not be read`,
    { help: "name it in conduit.ingress.controller: namespace, service, http-port, https-port" },
  );
}

/** `<namespace>/<service>[:httpPort/httpsPort]`; undefined for an invalid text. */
export function parseController(text: string): ControllerChoice | undefined {
  const match = /^([a-z0-9-]+)\/([a-z0-9.-]+)(?::(\d{1,5})\/(\d{1,5}))?$/.exec(text);
  if (!match) return undefined;
  const [, namespace, service, http, https] = match;
  return {
    namespace,
    service,
    ...(http !== undefined && { httpPort: Number(http), httpsPort: Number(https) }),
  };
}
