/** The deploy backends, and which of them a value of SVC_DEPLOY_BACKEND selects. Only this file lists their names. */
import { SvcError } from "../../lib/base/errors.ts";
import { suggestion } from "../../lib/base/nearest.ts";
import { type OptionTable, optionTable, reading, type Settings } from "../../lib/config/table.ts";
import type { FieldRules } from "../../lib/deploy/fields.ts";
import type { BackendModule } from "../../lib/deploy/module.ts";
import { BARE, BARE_READS } from "./bare/options.ts";
import { CONTAINERD, CONTAINERD_READS } from "./containerd/options.ts";
import { DOCKERHOST, DOCKERHOST_READS } from "./dockerhost/options.ts";
import { INCUS, INCUS_READS } from "./incus/options.ts";
import { KUBERNETES, KUBERNETES_INGRESS } from "./kubernetes/options.ts";
import { PODMAN, PODMAN_READS } from "./podman/options.ts";

export interface DeployBackendEntry {
  help: string;
  /** Other values of SVC_DEPLOY_BACKEND that select the backend. */
  aliases: readonly string[];
  /** The backend's own options. */
  options: readonly OptionTable[];
  /** The backend does what only the host's root may do; a user namespace's root may not. */
  needsRoot?: true;
  /** The engine has an image store that svc can read: the ability `images`. */
  hasImages?: true;
  /** It takes pushes: the ability `images` has a writer. */
  takesPushes?: true;
  /** True where the host has what the backend needs; told to people whose chosen backend lacks something. */
  worksHere?: (settings: Settings) => Promise<boolean>;
  /** Absent where this build does not contain the backend; `missing` then gives the reason. */
  load?: (settings: Settings) => Promise<BackendModule>;
  missing?: string;
  /** Serves what the backend's workloads run while there is no server: see {@linkcode keep}. */
  keep?: () => Promise<(args: readonly string[]) => Promise<string>>;
  /** What the backend does with each field of a spec; readable without opening it. Present where `load` is. */
  fields?: () => Promise<FieldRules>;
}

export const DEPLOY_BACKENDS: Record<string, DeployBackendEntry> = {
  dockerhost: {
    help: "a Docker Engine, by DOCKER_HOST",
    aliases: [],
    options: [DOCKERHOST],
    hasImages: true,
    load: reading(
      DOCKERHOST_READS,
      async () => (await import("./dockerhost/open.ts")).dockerhostModule,
    ),
    fields: async () => (await import("./dockerhost/fields.ts")).DOCKERHOST_FIELDS,
  },
  podman: {
    help: "podman's API service",
    aliases: [],
    options: [PODMAN],
    hasImages: true,
    load: reading(PODMAN_READS, async () => (await import("./podman/open.ts")).podmanModule),
    fields: async () => (await import("./podman/fields.ts")).PODMAN_FIELDS,
  },
  kubernetes: {
    help: "a Kubernetes cluster",
    aliases: ["k8s"],
    options: [KUBERNETES, KUBERNETES_INGRESS],
    missing: "the client of Kubernetes is not in this build yet",
  },
  containerd: {
    help: "a containerd daemon",
    aliases: [],
    options: [CONTAINERD],
    needsRoot: true,
    hasImages: true,
    takesPushes: true,
    load: reading(
      CONTAINERD_READS,
      async () => (await import("./containerd/open.ts")).containerdModule,
    ),
    fields: async () => (await import("./containerd/fields.ts")).CONTAINERD_FIELDS,
  },
  bare: {
    help: "this host, through an OCI runtime; no daemon needed",
    aliases: [],
    options: [BARE],
    needsRoot: true,
    load: reading(BARE_READS, async () => (await import("./bare/open.ts")).bareModule),
    fields: async () => (await import("./bare/fields.ts")).BARE_FIELDS,
    keep: async () => (await import("./bare/keep.ts")).keep,
    worksHere: async (settings) =>
      await (await import("./bare/preflight.ts")).worksHere(settings.of(...BARE_READS)),
  },
  incus: {
    help: "an Incus server",
    aliases: [],
    options: [INCUS],
    load: reading(INCUS_READS, async () => (await import("./incus/open.ts")).incusModule),
    fields: async () => (await import("./incus/fields.ts")).INCUS_FIELDS,
  },
};

/** `svc keep BACKEND …`, which no person runs. Returns what it says on standard output. */
export async function keep([name, ...args]: readonly string[]): Promise<string> {
  const serve = await DEPLOY_BACKENDS[name]?.keep?.();
  if (serve) return await serve(args);
  throw new SvcError("usage", "Cannot keep a workload: no backend of that name restarts any");
}

/** The value of SVC_DEPLOY_BACKEND where it is not set. */
const DEFAULT = "dockerhost";

/** Every accepted value of SVC_DEPLOY_BACKEND. */
export function deployBackendNames(): string[] {
  return Object.entries(DEPLOY_BACKENDS).flatMap(([name, { aliases }]) => [name, ...aliases]);
}

const CHOICE = optionTable([
  {
    key: "deployBackend",
    kind: "string",
    env: ["SVC_DEPLOY_BACKEND"],
    default: DEFAULT,
    section: "General and listener",
    help:
      "Where deployments run: dockerhost, podman, kubernetes (k8s), containerd, bare or incus. " +
      "This build has dockerhost, podman, containerd, bare and incus.",
  },
]);

export const DEPLOY_TABLES: readonly OptionTable[] = [
  CHOICE,
  ...Object.values(DEPLOY_BACKENDS).flatMap(({ options }) => options),
];

export interface SelectedBackend {
  /** The backend's own name, whichever alias selected it. */
  name: string;
  /** Throws `not_in_build`, saying what is missing and what to choose. */
  load: () => Promise<BackendModule>;
  inBuild: boolean;
  /** See {@linkcode DeployBackendEntry}; false where the backend is not in this build. */
  hasImages: boolean;
  /** See {@linkcode DeployBackendEntry}. */
  takesPushes: boolean;
  /** True where a setting names the backend, false for the default. */
  chosen: boolean;
  /** See {@linkcode DeployBackendEntry}. */
  needsRoot: boolean;
  /** Another backend that would work on this host as it is. */
  otherwise: () => Promise<string | undefined>;
}

/** The backend that SVC_DEPLOY_BACKEND names. Throws `config_invalid` with the nearest name. */
export function selectDeployBackend(settings: Settings): SelectedBackend {
  const { deployBackend: value } = settings.of(CHOICE);
  const found = Object.entries(DEPLOY_BACKENDS).find(([name, { aliases }]) =>
    name === value || aliases.includes(value)
  );
  if (!found) {
    const names = deployBackendNames();
    throw new SvcError(
      "config_invalid",
      `Cannot use SVC_DEPLOY_BACKEND: unknown backend ${JSON.stringify(value)}${
        suggestion(value, names)
      }`,
      { help: `use one of ${names.join(", ")}` },
    );
  }
  const [name, { load, missing, needsRoot = false, hasImages = false, takesPushes = false }] =
    found;
  const absent = () => {
    throw new SvcError("not_in_build", `Cannot deploy with ${name}: ${missing}`, {
      help: "start the server with SVC_DEPLOY_BACKEND=bare to run containers on this host",
    });
  };
  return {
    name,
    load: load ? () => load(settings) : absent,
    inBuild: load !== undefined,
    hasImages: hasImages && load !== undefined,
    takesPushes,
    chosen: name !== DEFAULT,
    needsRoot,
    async otherwise() {
      for (const [other, { worksHere }] of Object.entries(DEPLOY_BACKENDS)) {
        if (other !== name && await worksHere?.(settings)) return other;
      }
      return undefined;
    },
  };
}
