/**
 * Where the engines that speak the Docker Engine API differ. Whatever differs is a member here, with its reason;
 * nothing else in this folder knows which engine it speaks to. An absent member means Docker's behaviour.
 */
import type { DeploySpec } from "../../../../lib/api/deploy_spec.ts";
import type { CallOptions, DockerClient } from "../../../../lib/docker/client.ts";
import type { Inspected } from "./inspect.ts";

export interface EngineBehaviour {
  /** The backend's name. */
  name: string;
  /** What errors call the engine: "the Docker daemon". */
  product: string;
  /**
   * The log driver of svc's containers, by the engine's own default; undefined: the default. `svc logs` needs one
   * that keeps bytes as they were printed.
   */
  logDriver(ofEngine: string): string | undefined;
  /** The call that lists processes in columns; `path`: Docker's. */
  processes?(path: string): Pick<CallOptions, "path" | "unversioned">;
  /**
   * Makes a container that does not run ready to be attached to. It is done just before a start alone, as it
   * changes what the engine says of the container.
   */
  initialise?(client: DockerClient, container: string, signal: AbortSignal): Promise<void>;
  /** The end of what one client types is the end of the input, and so is the end of any client's connection. */
  endsInput?: true;
  /**
   * The engine copies what a link leads to, takes some characters of a path for patterns, and writes to what is
   * mounted read-only while the container does not run.
   */
  looseArchives?: true;
  /** The engine miscounts the last lines of a log where one has no end. */
  ownTail?: true;
  /** The engine's names of actions in events and their filters, by Docker's. */
  actions?: Readonly<Record<string, string>>;
  /**
   * The engine tells of deaths only: not of a stop that somebody asked for, where svc tells those that it asks for,
   * nor of one that lacked memory, which the container's description then says.
   */
  reasonsUntold?: true;
  /** Events come noticeably later than what they tell of: a call of svc's waits for those of its own. */
  lateEvents?: true;
  /**
   * Brings the description of a container into Docker's form. `settled`: the engine has done with its end, and
   * does not start it again. `before`: the last one.
   */
  inspected?(found: Inspected, settled: boolean, before?: Inspected): Inspected;
  /** The engine cannot change containers that are made: they have theirs from the start, on trial too. */
  fixedRestarts?: true;
  /**
   * Runs a container's health check once, and has the engine keep what came of it. For an engine that leaves the
   * times to others. Throws `conflict` where the container does not run.
   */
  probe?(client: DockerClient, container: string, signal: AbortSignal): Promise<void>;
  /** The call that removes a container and its anonymous volumes, running or not, at once. */
  removal?(id: string): Pick<CallOptions, "path" | "query" | "unversioned">;
  /** The call that removes a network only where nobody uses it. */
  networkRemoval?(id: string): Pick<CallOptions, "path" | "unversioned">;
  /** Matches what the engine prints for a command that could not start: one that ran may end with 127 too. */
  execRefusal?: RegExp;
  /** The exit code of a command that the engine forgot, as it does with the container's next start. */
  forgottenExec?(client: DockerClient, container: string, exec: string): Promise<number>;
  /**
   * True where this server sees the routes of the engine's host. Absent: the engine itself takes no subnet that its
   * host uses.
   */
  seesRoutes?(client: DockerClient, attempted: string): Promise<boolean>;
  /** The callers' files are mounted by the server, and never by companions. */
  serverMounts?: true;
  /** Throws `unsupported` for what the engine, as it is set up, would start and could not stop. */
  requireStoppable?(client: DockerClient, spec: DeploySpec): Promise<void>;
  /** Throws where the containers' addresses lead nowhere, or to others, from this server. */
  requireReachable?(
    client: DockerClient,
    attempted: string,
    containers: readonly Inspected[],
    signal?: AbortSignal,
  ): Promise<void>;
}
