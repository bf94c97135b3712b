/** Where on the daemon this server's instances, networks and volumes are, and how they are marked as its own. */
import { createHash } from "node:crypto";
import type { Mutex } from "../../../lib/base/mutex.ts";
import type { IncusClient } from "../../../lib/incus/client.ts";
import { foreignLabels } from "../shared/engine_api/labels.ts";

export interface IncusPlace {
  client: IncusClient;
  /** Identity of the server's data directory. */
  server: string;
  /** SVC_INCUS_STORAGE_POOL. */
  pool: string;
  /** SVC_INCUS_INSECURE_REGISTRIES. */
  insecure: readonly string[];
  /** Held by whoever changes a network: Incus makes one anew that is changed while it goes. */
  networkLock: Mutex;
}

/** The key of a configuration that holds the labels of svc's own: "svc.server". */
export const keyOf = (label: string) => `user.${label}`;

/** Labels that a spec gives: they may have names that no key may have. */
const FOREIGN = keyOf("svc.labels");
const OWN = /^user\.(svc\..+)$/;

/** Labels as keys of a configuration. */
export function configOf(labels: Readonly<Record<string, string>>): Record<string, string> {
  const own = Object.entries(labels).filter(([name]) => name.startsWith("svc."));
  return {
    ...Object.fromEntries(own.map(([name, value]) => [keyOf(name), value])),
    [FOREIGN]: JSON.stringify(foreignLabels(labels)),
  };
}

/** The labels that a configuration holds. */
export function labelsOf(config: Readonly<Record<string, string>>): Record<string, string> {
  const own = Object.entries(config).flatMap(([key, value]): [string, string][] => {
    const name = OWN.exec(key)?.[1];
    return name && key !== FOREIGN ? [[name, value]] : [];
  });
  let foreign: Record<string, string> = {};
  try {
    foreign = JSON.parse(config[FOREIGN] ?? "{}");
  } catch {
    // somebody else's
  }
  return { ...foreignLabels(foreign), ...Object.fromEntries(own) };
}

/** A name of an interface, which has 15 characters at most, and is nobody else's. */
export const interfaceName = (server: string, name: string) =>
  `svc${createHash("sha256").update(`${server} ${name}`).digest("hex").slice(0, 12)}`;

/** Incus takes names of 63 characters; the end of a key is what makes it unique. */
export const instanceName = (key: string) =>
  key.length <= 63 ? key : `${key.slice(0, 40)}${key.slice(-23)}`;
