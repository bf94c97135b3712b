/** Where a CONNECT goes (SPEC.md "Socks5"): inward to a service, or out from this machine. */
import { isIP } from "node:net";
import { SvcError } from "../../base/errors.ts";
import { formatAddress } from "../../config/address.ts";
import { isServiceName, type ResolveRules, type ServicePort } from "./socks5_rules.ts";

export interface ResolverOptions {
  /** Absent: the suffix decides. */
  rules?: ResolveRules;
  /** ".svc.internal" */
  suffix: string;
  /** Whether a deployment of that name runs; absent: a host without a dot is like any other host. */
  isLive?: (name: string) => Promise<boolean>;
}

/** In lower case, without a trailing dot; names are compared and matched so. */
export function canonicalHost(host: string): string {
  return host.toLowerCase().replace(/\.$/, "");
}

/** With its leading dot. Throws `config_invalid`. */
export function canonicalSuffix(suffix: string): string {
  const name = canonicalHost(suffix).replace(/^\./, "");
  if (/^[a-z0-9_-]+(\.[a-z0-9_-]+)*$/.test(name)) return `.${name}`;
  throw new SvcError(
    "config_invalid",
    `Cannot use the service host suffix ${
      JSON.stringify(suffix)
    }: it is not the end of a host name`,
    { help: "write it as .svc.internal" },
  );
}

export class Resolver {
  readonly #rules?: ResolveRules;
  readonly #suffix: string;
  readonly #isLive?: ResolverOptions["isLive"];

  /** Throws `config_invalid` for an invalid suffix. */
  constructor({ rules, suffix, isLive }: ResolverOptions) {
    this.#rules = rules;
    this.#suffix = canonicalSuffix(suffix);
    this.#isLive = isLive;
  }

  /**
   * The service and its port; undefined: connect to the host itself. `host` is canonical. Throws `not_found`
   * for a name under the suffix that no service can have, and what a rule throws.
   */
  async resolve(host: string, port: number): Promise<ServicePort | undefined> {
    const inward = this.#rules
      ? this.#rules.apply(formatAddress({ hostname: host, port }))
      : this.#bySuffix(host, port);
    if (inward) return inward;
    const bare = isServiceName(host) && isIP(host) === 0 && await this.#isLive?.(host);
    return bare ? { name: host, port } : undefined;
  }

  #bySuffix(host: string, port: number): ServicePort | undefined {
    if (!host.endsWith(this.#suffix)) return undefined;
    const name = host.slice(0, -this.#suffix.length);
    if (isServiceName(name)) return { name, port };
    throw new SvcError(
      "not_found",
      `Cannot connect to ${host}:${port}: ${JSON.stringify(name)} is not the name of a service`,
    );
  }
}
