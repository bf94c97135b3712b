/** The labels by which svc knows its containers, networks and volumes in an engine that others use too. */
import type { DeploySpec } from "../../../../lib/api/deploy_spec.ts";

/** A spec's labels with this prefix are not passed on: they would pass for svc's own. */
const PREFIX = "svc.";

/** The server's data directory. A server touches nothing that has not this label with its own value. */
export const SERVER = `${PREFIX}server`;
export const DEPLOYMENT = `${PREFIX}deployment`;
export const REPLICA = `${PREFIX}replica`;
/** Times of the health checks that svc runs: see probes.ts. Empty: svc runs none. */
export const PROBES = `${PREFIX}probes`;
/** A container that only shows whether the real one would come up: its events are not told. Empty: it is none. */
export const REHEARSAL = `${PREFIX}rehearsal`;

/** Of companions and what they share with their instances; instances have none of these. */
export const COMPANION_SERVER = `${PREFIX}companion.server`;
export const COMPANION_DEPLOYMENT = `${PREFIX}companion.deployment`;
export const COMPANION_KEY = `${PREFIX}companion.of`;
/** Hash of what a companion was made of. */
export const COMPANION_CONFIG = `${PREFIX}companion.config`;

/** The end of the key of a companion that mounts files for the instance that the key begins with. */
export const FILES = ".files";

/** Sources of the mounts that the server itself added to the spec's, as JSON. Empty: there are none. */
export const ATTACHED = `${PREFIX}attached`;

export const attachedLabel = (mounts: readonly { source: string }[]) => ({
  [ATTACHED]: mounts.length > 0 ? JSON.stringify(mounts.map(({ source }) => source)) : "",
});

/** What {@linkcode attachedLabel} says; nothing for a container of an earlier version. */
export function attachedSources(labels: Readonly<Record<string, string>> | null = {}): string[] {
  try {
    const all: unknown = JSON.parse(labels?.[ATTACHED] || "[]");
    return Array.isArray(all) ? all : [];
  } catch {
    return []; // not written by svc
  }
}

export const serverLabel = (server: string) => `${SERVER}=${server}`;

function originLabels({ origin }: DeploySpec): Record<string, string> {
  const labels: Record<string, string> = {};
  const { git = {}, ...rest } = origin ?? {};
  for (const [name, value] of Object.entries(rest)) labels[`${PREFIX}origin.${name}`] = value;
  for (const [name, value] of Object.entries(git)) {
    labels[`${PREFIX}origin.git.${name}`] = String(value);
  }
  return labels;
}

/** Labels that others gave, without those that would pass for svc's. */
export function foreignLabels(labels: Readonly<Record<string, string>> = {}) {
  return Object.fromEntries(Object.entries(labels).filter(([name]) => !name.startsWith(PREFIX)));
}

/**
 * Every label that svc reads is set: engines add the image's where the container has none of that name. So the
 * labels that are not to count are there too, and empty.
 */
export function containerLabels(
  spec: DeploySpec,
  { server, replica, rehearsal, probes, emptied = [] }: {
    server: string;
    replica: number;
    rehearsal?: boolean;
    probes?: string;
    emptied?: readonly string[];
  },
): Record<string, string> {
  return {
    ...Object.fromEntries(emptied.map((name) => [name, ""])),
    ...foreignLabels(spec.labels),
    ...originLabels(spec),
    [SERVER]: server,
    [DEPLOYMENT]: spec.name,
    [REPLICA]: String(replica),
    [REHEARSAL]: rehearsal ? "1" : "",
    [PROBES]: probes ?? "",
    // An image's would make the instance pass for a companion.
    [COMPANION_SERVER]: "",
  };
}
