/**
 * Client-local mounts: the workload of a deploy session reads and writes the caller's own files, in place, while
 * the session lives. The caller serves them by 9P; a process of the server's mounts them below `<data>/mounts`, and
 * the backend binds them into the workload. At the end the workload goes first, then the mounts. None outlives its
 * session or its server: what a killed server left is removed at the next start.
 */
import { join } from "node:path";
import type { DeploySpec } from "../../api/deploy_spec.ts";
import type { DeploymentStatus } from "../../api/deployment.ts";
import { parseTmpfs } from "../../api/deploy_spec_text.ts";
import type { CallerMount } from "../../api/caller_mounts.ts";
import { SvcError } from "../../base/errors.ts";
import { exists } from "../../base/fs.ts";
import type { Logger } from "../../base/log.ts";
import { posix } from "../../base/path.ts";
import { hasFuse } from "../../sys/fuse.ts";
import type { SessionCallers } from "../../wire/attached/callers.ts";
import type { Claim, DeployRequest, DeployService } from "../services.ts";
import type { KeptBlocks } from "./kept_blocks.ts";
import type { Fields } from "../../wire/attached/session.ts";
import type { YamuxStream } from "../../wire/yamux/stream.ts";
import { companionMounts, LedMounts } from "./led.ts";
import { SessionMounts, sweepMounts } from "./session_mounts.ts";

export interface MountServiceOptions {
  /** `<data>/mounts`. */
  folder: string;
  callers: SessionCallers;
  /** Whether the engine's companions mount the callers' files, in the server's place. Absent: they do not. */
  byCompanions?: () => Promise<boolean>;
  /** SVC_SESSION_GRACE, in milliseconds. */
  graceMs: number;
  kept: KeptBlocks;
  log: Logger;
}

const NOTHING: Claim = { commit() {}, release() {} };

/** Throws `spec_invalid` where the spec itself has something at a mount's target. */
export function requireFreeTargets(
  spec: DeploySpec,
  mounts: readonly { target: string }[],
  attempt: string,
): void {
  const taken = [
    ...[...spec.mounts, ...spec.volumes].map(({ target }) => target),
    ...(spec.tmpfs ?? []).map((text) => parseTmpfs(text).target),
  ].map((path) => posix.resolve("/", path));
  const twice = mounts.find(({ target }) => taken.includes(target));
  if (!twice) return;
  throw new SvcError(
    "spec_invalid",
    `${attempt} at ${twice.target}: the spec has another mount there`,
    { help: "choose another target, or leave it out of the spec" },
  );
}

export class CallerMountService implements DeployService {
  readonly name = "mounts";
  readonly #options: MountServiceOptions;
  readonly #mounted = new Map<string, SessionMounts | LedMounts>();

  constructor(options: MountServiceOptions) {
    this.#options = options;
  }

  /** Removes what a server that was killed has left. */
  async sweep(): Promise<void> {
    if (await exists(this.#options.folder)) await sweepMounts(this.#options.folder, { all: true });
  }

  async claim(spec: DeploySpec, { callerMounts: mounts = [] }: DeployRequest): Promise<Claim> {
    if (mounts.length === 0) return NOTHING;
    const attempt = `Cannot mount the caller's files into ${spec.name}`;
    const caller = this.#options.callers.of(spec.name);
    if (!caller) {
      throw new SvcError("argument_invalid", `${attempt}: it is not deployed in a session`, {
        help: "use `svc deploy --session`",
      });
    }
    requireFreeTargets(spec, mounts, "Cannot mount the caller's files");
    const { folder, graceMs, byCompanions, kept, log } = this.#options;
    kept.require(spec, mounts);
    const led = await byCompanions?.() ? new LedMounts(caller, mounts) : undefined;
    if (!led && !hasFuse()) {
      throw new SvcError("prerequisite_missing", `${attempt}: the server has no /dev/fuse`, {
        help: "load the kernel's module fuse at the server, or run it where /dev/fuse is to be had",
      });
    }
    const how = (mount: CallerMount) => kept.how(mount, spec);
    const own = { mounts, caller, how, graceMs, log, folder: join(folder, spec.name) };
    const made = led ?? new SessionMounts(own);
    return {
      contribute: async () => {
        this.#mounted.set(spec.name, made);
        if (made instanceof LedMounts) {
          const blocks = (mount: CallerMount) => how(mount).async;
          return { companion: companionMounts(mounts, { graceMs, how: blocks }) };
        }
        await made.start();
        return { mounts: made.attached };
      },
      commit() {},
      release: () => this.#end(spec.name, made),
    };
  }

  /** Warnings are told as long as the mounts are there. */
  describe(name: string): Partial<DeploymentStatus> {
    const made = this.#mounted.get(name);
    const warnings = made instanceof LedMounts
      ? made.warnings
      : made?.mounts.flatMap((one) => this.#options.kept.warning(one));
    return warnings?.length ? { warnings } : {};
  }

  removed(name: string): Promise<void> | undefined {
    const made = this.#mounted.get(name);
    return made && this.#end(name, made);
  }

  /** A companion of the deployment's opens a stream to the session's caller. */
  async lead(deployment: string, key: string, stream: YamuxStream, fields: Fields): Promise<void> {
    const made = this.#mounted.get(deployment);
    if (made instanceof LedMounts) await made.lead(key, stream, fields);
    else stream.reset();
  }

  async #end(name: string, made: SessionMounts | LedMounts): Promise<void> {
    await made.end();
    if (this.#mounted.get(name) === made) this.#mounted.delete(name);
  }
}
