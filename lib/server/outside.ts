/** The server's own name from outside, and its access to other registries. */
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
  /** Path of a docker `config.json` with logins; the file need not exist. */
  dockerConfig: string;
  /** Hosts that are reached without TLS, besides loopback. */
  insecure: readonly string[];
  userAgent: string;
  log: Logger;
}

/** Connects lazily. `overrides` win over the options for the host. */
export type Remotes = (
  host: string,
  overrides?: Partial<Pick<RemoteRegistryOptions, "plainHTTP" | "attempts" | "credentials">>,
) => RemoteRegistry;

export interface Outside {
  /** Registry host that this server is known by, without a scheme. */
  advertised?: string;
  /** Whether a registry host is a server that listens at this address. No `hostname`: on every interface. */
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
        // Not set otherwise: the client then uses plain HTTP on loopback only.
        ...(insecure.includes(host) && { plainHTTP: true }),
        credentials: () => readDockerCredentials(dockerConfig, host),
        ...overrides,
        userAgent,
        log,
      }),
  };
}
