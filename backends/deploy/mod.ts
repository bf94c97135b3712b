/** The deploy backends, and what a value of SVC_DEPLOY_BACKEND selects. Nothing else lists their names. */
import { SvcError } from "../../lib/base/errors.ts";
import { suggestion } from "../../lib/base/nearest.ts";
import type { BackendModule } from "../../lib/deploy/module.ts";

export interface DeployBackendEntry {
  help: string;
  /** Other names of SVC_DEPLOY_BACKEND that mean it. */
  aliases: readonly string[];
  /** Sections of the server's option table that are its own. */
  options: readonly string[];
  /** It does on this host what only the host's root may do; a user namespace's root may not. */
  needsRoot?: true;
  /** Absent where this build does not have it; `missing` then says why. */
  load?: () => Promise<BackendModule>;
  missing?: string;
}

export const DEPLOY_BACKENDS: Record<string, DeployBackendEntry> = {
  dockerhost: {
    help: "a Docker Engine, by DOCKER_HOST",
    aliases: [],
    options: [],
    missing: "the client of the Docker Engine is not in this build yet",
  },
  podman: {
    help: "podman's API service",
    aliases: [],
    options: [],
    missing: "the client of podman is not in this build yet",
  },
  kubernetes: {
    help: "a Kubernetes cluster",
    aliases: ["k8s"],
    options: [],
    missing: "the client of Kubernetes is not in this build yet",
  },
  containerd: {
    help: "a containerd daemon",
    aliases: [],
    options: ["Container networks"],
    missing: "the client of containerd is not in this build yet",
  },
  bare: {
    help: "this host, through an OCI runtime; no daemon needed",
    aliases: [],
    options: ["Bare backend", "Container networks"],
    needsRoot: true,
    load: () => import("./bare/open.ts"),
  },
  incus: {
    help: "an Incus server",
    aliases: [],
    options: [],
    missing: "the client of Incus is not in this build yet",
  },
};

/** Every accepted value of SVC_DEPLOY_BACKEND. */
export function deployBackendNames(): string[] {
  return Object.entries(DEPLOY_BACKENDS).flatMap(([name, { aliases }]) => [name, ...aliases]);
}

export interface SelectedBackend {
  /** Its own name, whatever alias selected it. */
  name: string;
  /** Throws `not_in_build`, saying what is missing and what to choose. */
  load: () => Promise<BackendModule>;
  inBuild: boolean;
  /** See {@linkcode DeployBackendEntry}. */
  needsRoot: boolean;
}

/** The backend of that name or alias. Throws `config_invalid` with the nearest name. */
export function selectDeployBackend(value: string): SelectedBackend {
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
  const [name, { load, missing, needsRoot = false }] = found;
  const absent = () => {
    throw new SvcError("not_in_build", `Cannot deploy with ${name}: ${missing}`, {
      help: "start the server with SVC_DEPLOY_BACKEND=bare to run containers on this host",
    });
  };
  return { name, load: load ?? absent, inBuild: load !== undefined, needsRoot };
}
