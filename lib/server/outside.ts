/** How this server is named from outside, and how it reaches other registries. */
import { hostname } from "node:os";
import type { Logger } from "../base/log.ts";
import { readDockerCredentials } from "../remote/credentials.ts";
import {
  createRemoteRegistry,
  type RemoteRegistry,
  type RemoteRegistryOptions,
} from "../remote/registry.ts";
import { ownHosts } from "./hosts.ts";

export interface OutsideOptions {
  /** SVC_ADVERTISE_REGISTRY. */
  advertise?: string;
  /** Path of a docker `config.json` with logins; it need not exist. */
  dockerConfig: string;
  /** Hosts that are spoken to without TLS, besides those of the loopback interface. */
  insecure: readonly string[];
  userAgent: string;
  log: Logger;
}

/** Connects lazily. What is overridden is not what the options say of the host. */
export type Remotes = (
  host: string,
  overrides?: Partial<Pick<RemoteRegistryOptions, "plainHTTP" | "attempts" | "credentials">>,
) => RemoteRegistry;

export interface Outside {
  /** Registry host that this server is known by, without a scheme. */
  advertised?: string;
  /** Tells whether a registry host is a server that listens at this address; no host name: everywhere. */
  isOwn: (address: { hostname?: string; port: number }) => (host: string) => boolean;
  remote: Remotes;
}

export function createOutside(options: OutsideOptions): Outside {
  const { dockerConfig, insecure, userAgent, log } = options;
  const advertised = options.advertise?.replace(/^https?:\/\//, "");
  return {
    advertised,
    isOwn: ({ hostname: bound = "::", port }) =>
      ownHosts({
        address: { hostname: bound, port },
        advertised,
        machine: () => [hostname(), ...Deno.networkInterfaces().map((entry) => entry.address)],
      }),
    remote: (host, overrides) =>
      createRemoteRegistry({
        host,
        // Unset, the client decides: without TLS on loopback only.
        ...(insecure.includes(host) && { plainHTTP: true }),
        credentials: () => readDockerCredentials(dockerConfig, host),
        ...overrides,
        userAgent,
        log,
      }),
  };
}
