/** The routes that a spec's `ingress` block asks for (SPEC "Ingress defaults"). */
import type { DeploySpec, IngressSpec } from "../api/deploy_spec.ts";
import type { IngressRoute } from "../api/ingress.ts";
import { SvcError } from "../base/errors.ts";
import { asciiHost, baseDomain, isWithin } from "./host_name.ts";

export interface IngressDefaults {
  /** SVC_INGRESS_DOMAIN. */
  domain?: string;
  /** SVC_INGRESS_ENFORCE_DOMAIN. */
  enforceDomain?: boolean;
}

/** Stands for the domain itself. */
const APEX = "@";

/** What a path of requests does not have, or what means another path. */
// deno-lint-ignore no-control-regex
const STRANGE = /[\u0000-\u0020\u007f?#\\]|\/\/|\/\.\.?(?:\/|$)/;

function refusal(spec: DeploySpec, what: string, help?: string): SvcError {
  return new SvcError("spec_invalid", `Cannot deploy ${spec.name}: ${what}`, { help });
}

/** True where the block is present and not switched off. */
export function wantsIngress(spec: DeploySpec): boolean {
  return spec.ingress !== undefined && spec.ingress.enabled !== false;
}

/**
 * Empty where the spec asks for no ingress. Throws `spec_invalid` for a missing host or port and for a
 * malformed name, `denied` for a host outside the server's domain where the domain is enforced.
 */
export function ingressRoutes(spec: DeploySpec, defaults: IngressDefaults = {}): IngressRoute[] {
  const { ingress } = spec;
  if (!ingress || !wantsIngress(spec)) return [];
  const port = portOf(spec, ingress);
  const path = pathOf(spec, ingress);
  const pathType = ingress.pathType === "Exact" ? "Exact" : "Prefix";
  const tls = ingress.tls !== undefined && ingress.tls !== false;
  const hosts = hostsOf(spec, ingress, defaults);
  enforce(spec, hosts, defaults);
  return hosts.map((host) => ({ host, path, pathType, deployment: spec.name, port, tls }));
}

function hostsOf(spec: DeploySpec, ingress: IngressSpec, defaults: IngressDefaults): string[] {
  const { hosts = [], subdomain } = ingress;
  const domain = ingress.domain !== undefined && ingress.domain !== ""
    ? baseDomain(ingress.domain, `deployment spec ${spec.name}: ingress.domain`, "spec_invalid")
    : defaults.domain && baseDomain(defaults.domain, "SVC_INGRESS_DOMAIN", "config_invalid");
  const below = (name: string, field: string): string => {
    if (domain) return name === APEX ? domain : `${name}.${domain}`;
    throw refusal(
      spec,
      `${field} has no host: neither a host nor a domain is set`,
      "set ingress.hosts or ingress.domain, or SVC_INGRESS_DOMAIN on the server",
    );
  };
  const named: [field: string, host: string][] = hosts.map((host, index) => {
    const field = `ingress.hosts[${index}]`;
    return [field, host.trim() === APEX ? below(APEX, field) : host.trim()];
  });
  if (subdomain !== undefined && subdomain !== "") {
    named.push(["ingress.subdomain", below(subdomain, "ingress.subdomain")]);
  }
  if (named.length === 0) named.push(["ingress", below(spec.name, "ingress")]);
  return [...new Set(named.map(([field, host]) => checkedHost(spec, field, host)))];
}

function checkedHost(spec: DeploySpec, field: string, text: string): string {
  const wildcard = text.startsWith("*.");
  const name = asciiHost(wildcard ? text.slice(2) : text);
  if (name !== undefined) return wildcard ? `*.${name}` : name;
  throw refusal(
    spec,
    `${field}: ${JSON.stringify(text)} is not a host name`,
    "write a name such as app.example.com, *.example.com, or @ for the domain itself; no scheme, " +
      "no port, no address",
  );
}

function enforce(spec: DeploySpec, hosts: string[], defaults: IngressDefaults): void {
  if (!defaults.enforceDomain || !defaults.domain) return;
  const domain = baseDomain(defaults.domain, "SVC_INGRESS_DOMAIN", "config_invalid");
  const outside = hosts.filter((host) => !isWithin(host, domain));
  if (outside.length === 0) return;
  throw new SvcError(
    "denied",
    `Cannot deploy ${spec.name}: the ingress host ${
      outside.join(", ")
    } is outside the domain ${domain}`,
    { help: `choose a host below ${domain}; this server enforces its domain` },
  );
}

function portOf(spec: DeploySpec, ingress: IngressSpec): number {
  const declared = [...spec.ports, ...spec.expose ?? []];
  const port = ingress.port ?? declared.find(({ protocol }) => protocol === "tcp")?.container;
  if (port !== undefined) return port;
  throw refusal(
    spec,
    "ingress has no port: the spec has no TCP port that requests could go to",
    "set ingress.port, or declare the container's port in expose or ports",
  );
}

/** The path as requests have it: characters beyond ASCII are percent-encoded. */
function pathOf(spec: DeploySpec, { path = "/" }: IngressSpec): string {
  const plain = path.startsWith("/") && !STRANGE.test(path);
  if (plain) return new URL(`http://host${path}`).pathname;
  throw refusal(
    spec,
    `ingress.path: ${JSON.stringify(path)} is not a path`,
    "write a path such as /api, without blanks, queries, empty elements, . or ..",
  );
}
