/** Where builds run: in this process, at an upstream builder, or in a builder container (SPEC). */
import { SvcError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import type { DELEGATION } from "../config/server/delegation.ts";
import type { SettingsOf } from "../config/table.ts";

/** A privileged container that builds (SPEC "Builder delegation behaviour", rules 3 to 6). */
export interface BuilderContainer {
  /** Starts the container, or adopts a running one. Gives the URL that it listens on, `ws://HOST:PORT`. */
  start(): Promise<string>;
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
  /** Absent where no container engine can start a builder. */
  container?: BuilderContainer;
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
  /** The builder that {@linkcode target} named does not answer: the next call looks for a builder again. */
  lost(): void;
}

class Delegate implements Delegation {
  #options: DelegationOptions;
  #target: Promise<URL | undefined> | undefined;

  constructor(options: DelegationOptions) {
    this.#options = options;
  }

  target(): Promise<URL | undefined> {
    const target = this.#target ??= this.#find();
    target.catch(() => {
      if (this.#target === target) this.#target = undefined;
    });
    return target;
  }

  lost(): void {
    this.#target = undefined;
  }

  async #find(): Promise<URL | undefined> {
    const { url, token, auto, canBuild, container, log, root, refused } = this.#options;
    if (url !== undefined) {
      const target = new URL(url);
      if (token !== undefined) target.password = encodeURIComponent(token);
      return target;
    }
    if (await canBuild()) return undefined;
    if (!auto || !container) throw cannotMount(root, auto, refused);
    log.info("build engine cannot mount(2) as this user; using a containerized builder");
    const started = await container.start();
    log.info("delegating builds to containerized builder", { url: started });
    return new URL(started);
  }
}

function cannotMount(root: string, auto: boolean, refused?: string): SvcError {
  return new SvcError(
    "prerequisite_missing",
    `Cannot build: failed to mount ${root}: operation not permitted`,
    {
      help: (refused === undefined ? "" : `--rootless did not help: ${refused}; or `) +
        "run the server as root, or name a builder that runs so with SVC_BUILDER_URL" +
        (auto ? "; no container engine is there that a builder could be started with" : ""),
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
  root: string,
  log: Logger,
  refused?: string,
): Delegation {
  return createDelegation({ url, token, auto, canBuild, root, log, refused });
}
