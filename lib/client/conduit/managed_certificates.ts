/**
 * Certificates that a deploy sends along for a cluster's ingress (SPEC.md "IngressCertificate"). The profile's
 * rules choose one for each host; private keys are sent only on a way that others cannot read (SPEC.md
 * "Authentication" 6).
 */
import type { DeploySpec } from "../../api/deploy_spec.ts";
import type { ServerInfo } from "../../api/info.ts";
import { CERTIFICATES_ABILITY, type HostCertificate } from "../../api/ingress_certificates.ts";
import { SvcError } from "../../base/errors.ts";
import { asciiHost } from "../../ingress/host_name.ts";
import { wantsIngress } from "../../ingress/hosts.ts";
import type { Target } from "../resolve.ts";
import {
  type CertificateRules,
  type CertificateSettings,
  loadCertificates,
} from "./certificates.ts";

/** True where private keys may be sent: by TLS, through a tunnel, or without leaving this machine. */
export function keepsSecrets({ server, transport }: Pick<Target, "server" | "transport">): boolean {
  const { protocol, hostname } = new URL(server);
  return transport.kind !== "direct" || protocol === "https:" ||
    /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/.test(hostname);
}

function requireSecrecy(target: Pick<Target, "server" | "transport">): void {
  if (keepsSecrets(target)) return;
  throw new SvcError(
    "config_invalid",
    `Cannot send the private keys of ingress certificates to ${target.server}: it is plain HTTP, which ` +
      "others can read",
    {
      help: "write the server as https://, reach it by ssh-tunnel or port-forward, or remove " +
        "conduit.ingress.certificates from the context",
    },
  );
}

/** True where the spec asks for TLS and does not name a secret with its own certificate. */
function wantsCertificates(spec: DeploySpec): boolean {
  const tls = spec.ingress?.tls;
  return wantsIngress(spec) && tls !== false &&
    !(typeof tls === "object" && tls.secretName !== undefined);
}

function refusal(spec: DeploySpec, what: string, help: string): SvcError {
  return new SvcError(
    "spec_invalid",
    `Cannot deploy ${spec.name} with the certificates of conduit.ingress: ${what}`,
    { help },
  );
}

/** The spec's hosts, all written out: the client chooses certificates, so the server cannot derive a host. */
function concreteHosts(spec: DeploySpec, domain: string | undefined): string[] {
  const { hosts = [], subdomain, domain: own } = spec.ingress!;
  const base = own?.replace(/^\*?\./, "") || domain || "example.com";
  const derived = (field: string, host: string) =>
    refusal(
      spec,
      `${field} leaves the host to the server, which derives it`,
      `write the host out in ingress.hosts, such as ${host}`,
    );
  if (subdomain) throw derived("ingress.subdomain", `${subdomain}.${base}`);
  if (hosts.length === 0) throw derived("ingress", `${spec.name}.${base}`);
  return hosts.map((text, i) => {
    const host = text.trim();
    if (host === "@") throw derived(`ingress.hosts[${i}]: "@"`, base);
    const wildcard = host.startsWith("*.");
    const name = asciiHost(wildcard ? host.slice(2) : host);
    // The server refuses an invalid name with its own message.
    return name === undefined ? host : wildcard ? `*.${name}` : name;
  });
}

function grouped(spec: DeploySpec, hosts: readonly string[], rules: CertificateRules) {
  const chosen = new Map<string, HostCertificate>();
  for (const host of new Set(hosts)) {
    const rule = rules.select(host);
    if (!rule) {
      const all = rules.all.flatMap(({ patterns }) => patterns).join(", ");
      throw refusal(
        spec,
        `ingress host ${host} matches none of the rules: ${all}`,
        "add a rule for it to conduit.ingress.certificates, or remove the host",
      );
    }
    const pem = rule.pem();
    // Several rules may use one certificate.
    const known = chosen.get(pem.certificate);
    if (known) known.hosts.push(host);
    else chosen.set(pem.certificate, { hosts: [host], ...pem });
  }
  return [...chosen.values()];
}

export interface ManagedOptions {
  rules: CertificateSettings;
  spec: DeploySpec;
  target: Pick<Target, "server" | "transport">;
  /** Describes the server that is deployed to. */
  info: () => Promise<ServerInfo>;
  /** One line for a person. */
  warn: (text: string) => void;
}

/**
 * The spec with its certificates; undefined where the spec asks for no ingress, or the server's ingress is not
 * a cluster's. Throws `spec_invalid` for a host without a rule or one that is not written out, `config_invalid`
 * for rules that cannot be read and for a way on which others could read the keys.
 */
export async function managedCertificates(
  { rules, spec, target, info, warn }: ManagedOptions,
): Promise<HostCertificate[] | undefined> {
  if (rules.length === 0 || !wantsCertificates(spec)) return undefined;
  const { deploy, ingress } = await info();
  if (!deploy.caps.includes(CERTIFICATES_ABILITY)) return undefined;
  const hosts = concreteHosts(spec, ingress?.domain);
  requireSecrecy(target);
  return grouped(spec, hosts, await loadCertificates(rules, warn));
}
