/**
 * Where builds run: in this process, at an upstream builder, or in a builder container
 * (SPEC "Builder delegation behaviour").
 */
import { asSvcError, SvcError } from "../base/errors.ts";
import { type Lazy, lazy } from "../base/lazy.ts";
import type { Logger } from "../base/log.ts";
import type { ServerInfo } from "../api/info.ts";
import { isGone } from "../docker/errors.ts";
import type { DELEGATION } from "../config/server/delegation.ts";
import type { SettingsOf } from "../config/table.ts";

/** A privileged container that builds (SPEC "Builder delegation behaviour", rules 3 to 6). */
export interface BuilderContainer {
  /** Starts the container, or adopts a running one, and resolves once it answers. */
  start(): Promise<BuilderPlace>;
  /** Throws the reason why none could be started; starts nothing. */
  ready(): Promise<void>;
}

/** Where a builder listens. */
export interface BuilderPlace {
  /** `ws://HOST:PORT`. */
  url: string;
  /** The bearer token that it asks for. */
  token: string;
}

export interface DelegationOptions {
  /** SVC_BUILDER_URL. */
  url?: string;
  /** SVC_BUILDER_TOKEN. Absent: the password of the URL, or its user, is the token. */
  token?: string;
  /** SVC_BUILDER_AUTO. */
  auto: boolean;
  /** True where this process can run the build engine. Tests the needed mount itself, not the user id. */
  canBuild: () => boolean | Promise<boolean>;
  /** Absent where no container engine can start a builder. Opened where one is needed. */
  container?: () => Promise<BuilderContainer>;
  /** Why `--rootless` failed, where it was asked for. */
  refused?: string;
  /** Folder that the engine would mount in, for error messages. */
  root: string;
  log: Logger;
}

export interface Delegation {
  /**
   * The builder for this server's builds, with its token as the URL's password. Undefined: the engine of this
   * process builds. Throws `prerequisite_missing` where there is neither, with the reason why no container
   * could be started; the next call tries again.
   */
  target(): Promise<URL | undefined>;
  /** Where builds are to run; starts nothing. */
  plan(): Promise<ServerInfo["build"]>;
}

/** The builder's address with its token, which no log shows. */
function withToken(url: string, token: string): URL {
  const target = new URL(url);
  target.password = encodeURIComponent(token);
  return target;
}

class Delegate implements Delegation {
  readonly #options: DelegationOptions;
  readonly #mayBuild: Lazy<boolean>;
  readonly #container: Lazy<BuilderContainer> | undefined;
  #starting: Promise<URL> | undefined;
  /** The URL of the container that was told of last. */
  #told = "";

  constructor(options: DelegationOptions) {
    this.#options = options;
    this.#mayBuild = lazy(async () => await options.canBuild());
    this.#container = options.container && lazy(options.container);
  }

  async target(): Promise<URL | undefined> {
    const { url, token, auto, root, refused } = this.#options;
    if (url !== undefined) return token === undefined ? new URL(url) : withToken(url, token);
    if (await this.#mayBuild.get()) return undefined;
    if (!auto || !this.#container) throw cannotMount(root, auto, refused);
    // Asked for each build: a builder that has ended starts again, and its port is never trusted unseen.
    return await (this.#starting ??= this.#start().finally(() => this.#starting = undefined));
  }

  async plan(): Promise<ServerInfo["build"]> {
    const { url, auto, root, refused } = this.#options;
    if (url !== undefined) return { at: "builder" };
    if (await this.#mayBuild.get()) return { at: "here" };
    try {
      if (!auto || !this.#container) throw cannotMount(root, auto, refused);
      await (await this.#container.get()).ready();
      return { at: "container" };
    } catch (error) {
      const { message, help } = isGone(error)
        ? cannotMount(root, true, refused, error)
        : asSvcError(error);
      return { at: "nowhere", reason: `${message}; ${help}` };
    }
  }

  async #start(): Promise<URL> {
    const { log, root, refused } = this.#options;
    if (this.#told === "") {
      log.info("build engine cannot mount(2) as this user; using a containerized builder");
    }
    try {
      const { url, token } = await (await this.#container!.get()).start();
      if (this.#told !== url) log.info("delegating builds to containerized builder", { url });
      this.#told = url;
      return withToken(url, token);
    } catch (error) {
      if (isGone(error)) throw cannotMount(root, true, refused, error);
      throw error;
    }
  }
}

function cannotMount(root: string, auto: boolean, refused?: string, cause?: unknown): SvcError {
  const engine = cause instanceof Error ? cause.message : "this server knows no container engine";
  return new SvcError(
    "prerequisite_missing",
    `Cannot build: failed to mount ${root}: operation not permitted`,
    {
      cause,
      help: (refused === undefined ? "" : `--rootless did not help: ${refused}; or `) +
        "run the server as root, or name a builder that runs so with SVC_BUILDER_URL" +
        (auto ? `; no builder can be started in a container: ${engine}` : ""),
    },
  );
}

export function createDelegation(options: DelegationOptions): Delegation {
  return new Delegate(options);
}

/** SPEC "Builder delegation behaviour" 2. On other systems than Linux the engine itself reports what is missing. */
async function canBuild(): Promise<boolean> {
  return Deno.build.os !== "linux" || (await import("../sys/mount.ts")).canMount();
}

/** The delegation that the server's options ask for; `root` is the build engine's folder. */
export function serverDelegation(
  { builderUrl: url, builderToken: token, builderAuto: auto }: SettingsOf<[typeof DELEGATION]>,
  options: Pick<DelegationOptions, "root" | "log" | "refused" | "container">,
): Delegation {
  return createDelegation({ url, token, auto, canBuild, ...options });
}
