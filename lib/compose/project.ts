/**
 * A loaded Compose project: every short form written out, every path absolute, every default that the
 * Compose specification gives a reader in its place. Names and forms of the fields are those that
 * `svc compose config --format json` prints: the Compose specification's own.
 *
 * - Durations are Go's text ("1m30s"); sizes are text of a whole number of bytes ("1048576").
 * - A field that has its zero value (false, 0, "", nothing) is left out, as docker compose leaves it out.
 * - `x-…` keys are kept where they stood.
 */
import type { Devcontainer } from "./devcontainer/read.ts";
import type { Service } from "./service.ts";
import type * as shapes from "./shape/resources.ts";
import type { Extensible, Valued } from "./shape/shape.ts";
import type { Place } from "./yaml/tree.ts";

export interface Project extends Extensible {
  name: string;
  /** Services whose profiles are active. */
  services: Record<string, Service>;
  networks: Record<string, Network>;
  volumes: Record<string, Volume>;
  secrets: Record<string, FileObject>;
  configs: Record<string, FileObject>;
  models: Record<string, Model>;
}

/** What a project is besides what its files say. */
export interface LoadedProject {
  project: Project;
  /** Absolute: relative paths of the files begin here. */
  directory: string;
  /** The files that were read first, absolute, in the order of their merge; without those of `include`. */
  files: string[];
  /** What variables of the files were looked up in: the caller's environment above the .env files. */
  environment: Record<string, string>;
  /** The profiles that were asked for. */
  profiles: string[];
  /** Services left out because none of their profiles is active. */
  disabled: Record<string, Service>;
  /** What docker compose would warn of: unset variables, obsolete fields. One line each. */
  warnings: string[];
  /** The devcontainer.json that the project was made of. */
  devcontainer?: Devcontainer;
  /**
   * Where a value was written: `place("services", "web", "ports", "0")`. The place of the nearest known value
   * above it where it has none of its own (a default); undefined where nothing of it was written.
   */
  place(...path: string[]): Place | undefined;
}

export interface LoadOptions {
  /** Compose files in the order of their merge; "-" is standard input. Empty: COMPOSE_FILE, else discovery. */
  files: readonly string[];
  /** Empty: the first file's directory, else the working directory. */
  projectDirectory?: string;
  /** Overrides COMPOSE_PROJECT_NAME and the files' `name`. */
  projectName?: string;
  /** Empty: COMPOSE_PROFILES. "*" is all. */
  profiles: readonly string[];
  /** The caller's environment. */
  env: Readonly<Record<string, string | undefined>>;
  /** Empty: COMPOSE_ENV_FILES, else `.env` of the project directory where there is one. */
  envFiles: readonly string[];
  /** The caller's working directory; default: the process's. */
  cwd?: string;
  /** Reads standard input for the file "-". */
  stdin?: () => Promise<string>;
  /** Texts that are read instead of files of these paths. */
  texts?: ReadonlyMap<string, string>;
}

export type Network = Valued<typeof shapes.NETWORK>;
export type Volume = Valued<typeof shapes.VOLUME>;
/**
 * A config or a secret of the project: its content comes from one of file (absolute), environment (a variable: its value
 * is `LoadedProject.environment[name]`, absent where it is unset) and content.
 */
export type FileObject = Valued<typeof shapes.CONFIG> & Valued<typeof shapes.SECRET>;
export type Model = Valued<typeof shapes.MODEL>;
