/**
 * What the deployments of an engine that others use too ask of it. docker_engine.ts answers through the Docker
 * Engine API; an engine with another API has a module of its own.
 */
import type { DeploySpec, VolumeSpec } from "../../../../lib/api/deploy_spec.ts";
import type { LogFrame } from "../../../../lib/api/deployment.ts";
import type { AttachedMount, DeployCaps, LogOptions } from "../../../../lib/deploy/backend.ts";
import type { CaredFor } from "../../../../lib/deploy/caretakers.ts";
import type { HostPaths } from "../../../../lib/docker/own_container.ts";
import type { ImageResolver } from "../../../../lib/oci/resolver.ts";
import type { DeployedParts } from "./abilities/parts.ts";
import type { EngineImage, FindOptions } from "./images.ts";
import type { Inspected, RestartPolicy } from "./inspect.ts";
import type { Attachments, EngineNetworks } from "./networks.ts";
import type { EngineWatch } from "./watch.ts";

export interface ContainerRequest {
  spec: DeploySpec;
  server: string;
  replica: number;
  image: EngineImage;
  /** Labels of the image that other programs would act on, and may not. */
  emptied: readonly string[];
  /** The attachments' environment. */
  env: Readonly<Record<string, string>>;
  /** The attachments' mounts; none where the engine lacks the ability `mounts`. */
  attached: readonly AttachedMount[];
  attachments: Attachments;
  /** Real paths of the spec's mounts, in their order. */
  sources: readonly string[];
  /** 0: no limit. */
  pidsLimit: number;
  /** The engine starts it again from its start on, as the spec says. */
  fixedRestarts?: boolean;
  /** Without host ports and fixed addresses: it only shows whether it would come up. */
  rehearsal?: boolean;
  /** The volume that the instance shares with its companion, read-only here. */
  shared?: string;
}

/** A companion as the engine has it. */
export interface CompanionState {
  running: boolean;
  /** RFC 3339. */
  startedAt: string;
  /** How often the engine started it again by itself. */
  restarts: number;
  /** As {@linkcode CompanionCalls.create} was told. */
  config: string;
}

export interface CompanionRequest {
  of: CaredFor;
  /** The instance's. */
  container: string;
  image: EngineImage;
  env: Readonly<Record<string, string>>;
  /** Of what it is made. */
  config: string;
}

/** The calls that make companions. `key`: of the instance. */
export interface CompanionCalls {
  /** The folder that an instance shares with its companion, in both. */
  readonly folder: string;
  /** Makes the volume that the instance and its companion share, and gives its name. Idempotent. */
  prepare(of: CaredFor): Promise<string>;
  /** Makes a companion in the network namespace of the instance's container; it is not started. */
  create(request: CompanionRequest): Promise<void>;
  /**
   * Makes and starts a companion that mounts files: in a network of its own, as its instance comes after it. Gives the
   * folder of its mounts on the engine's host. Absent: companions of this engine mount nothing.
   */
  mount?(request: Omit<CompanionRequest, "container">): Promise<string>;
  look(key: string): Promise<CompanionState | undefined>;
  /** Starts it in the namespace that its instance has now. */
  restart(key: string): Promise<void>;
  stop(key: string): Promise<void>;
  /** Idempotent. `withVolume`: nothing uses it any more. */
  remove(key: string, withVolume?: boolean): Promise<void>;
  /** Keys of the deployment's companions and volumes. */
  list(deployment: string): Promise<string[]>;
  /** The end of what it printed. */
  lastWords(key: string): Promise<string>;
}

/** The calls that make, start, stop and remove the containers of instances. */
export interface ContainerCalls {
  /** Makes a container, attached to its networks, not started; gives its id. Nothing is left where that fails. */
  create(request: ContainerRequest, key: string, signal?: AbortSignal): Promise<string>;
  /** Starts a container for the first time. Throws `deploy_failed` or `port_in_use` with the engine's words. */
  begin(container: string, request: ContainerRequest, signal?: AbortSignal): Promise<void>;
  /** Idempotent. */
  start(container: string, signal?: AbortSignal): Promise<void>;
  /** Idempotent, of one that is gone too. Waits `seconds` before it kills. */
  stop(container: string, seconds: number): Promise<void>;
  /**
   * Removes it with its anonymous volumes, running or not. Idempotent. Rejects where the engine refuses it for longer
   * than a moment.
   */
  remove(container: string): Promise<void>;
  /** How many times, and when, it is started again from now on. */
  supervise(container: string, policy: RestartPolicy, signal?: AbortSignal): Promise<void>;
}

export interface DeployEngine extends AsyncDisposable {
  /** The backend's name. */
  readonly name: string;
  /** What errors call the engine: "the Docker daemon". */
  readonly product: string;
  readonly watch: EngineWatch;
  readonly networks: EngineNetworks;
  readonly containers: ContainerCalls;
  /** Absent: the engine can have no companions. */
  readonly companions?: CompanionCalls;
  /** See {@linkcode EngineBehaviour.fixedRestarts}. */
  readonly fixedRestarts?: true;
  /** Throws the reason why nothing can be deployed. */
  ready(): Promise<void>;
  /** The engine and where it is, for people. */
  about(): Promise<string>;
  /** What this very engine does not do of the spec, as warnings. */
  told(spec: DeploySpec): Promise<string[]>;
  findImage(name: string, images: ImageResolver, options: FindOptions): Promise<EngineImage>;
  /** Makes the volume where it is missing. Throws `conflict` for one that this server did not make. */
  ensureVolume(volume: VolumeSpec): Promise<void>;
  /** How this server's paths appear on the engine's host; undefined: that is another host. */
  hostPaths(): Promise<HostPaths | undefined>;
  /** The frames of one container; `instance` is what they call it. */
  readLogs(container: string, instance: string, options?: LogOptions): AsyncGenerator<LogFrame[]>;
  /** Throws where the containers' addresses lead nowhere, or to others, from this server. */
  requireReachable?(
    attempted: string,
    containers: readonly Inspected[],
    signal?: AbortSignal,
  ): Promise<void>;
  abilities(parts: DeployedParts): DeployCaps;
}
