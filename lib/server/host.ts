/** The user and the folders that this server runs with on this host; `--rootless` is entered here. */
import { join, resolve } from "node:path";
import { SvcError } from "../base/errors.ts";
import { acquireLock } from "../base/lock.ts";
import type { Logger } from "../base/log.ts";
import { makeOwnFolder } from "../base/runtime_folder.ts";
import { PROCESS } from "../config/server/general.ts";
import type { Settings } from "../config/table.ts";
import { killContainers } from "../runtime/orphans.ts";
import { defaultDataDir } from "./data_dir.ts";
import { enterRootless, identity } from "./rootless.ts";
import { buildState, runDir } from "./state_dir.ts";

export interface ServerHost {
  /** Absolute. */
  dataDir: string;
  /** Folder for all servers of this user; a reboot empties it. */
  runDir: string;
  /** The build engine's folder in `runDir`. */
  buildState: string;
  /** Why `--rootless` failed. */
  refused?: string;
}

export interface HostOptions {
  settings: Settings;
  env: Readonly<Record<string, string | undefined>>;
  /** This program's arguments, to start it again with. */
  args: readonly string[];
  log: Logger;
  /** The deploy backend. `needsRoot`: it does what only the host's root may do. */
  deploy: { name: string; needsRoot: boolean };
  /** The build worker; `needsRoot` as above. */
  worker: { name: string; needsRoot?: boolean };
  /** Writes out the log before the process is replaced. */
  flush: () => void;
}

/** Throws `unsupported` for a deploy backend or a build worker that cannot be had with `--rootless`. */
export async function prepareHost(options: HostOptions): Promise<ServerHost> {
  const { settings, env, args, log, deploy, worker, flush } = options;
  const config = settings.of(PROCESS);
  const { uid, inside } = Deno.build.os === "linux" ? identity(env) : elsewhere();
  const dataDir = resolve(config.dataDir ?? defaultDataDir({ os: Deno.build.os, uid, env }));
  const run = await runDir({ uid: uid ?? 0, env });
  const host = { dataDir, runDir: run, buildState: buildState(run, dataDir) };
  if (inside) await makeOwnFolder(run);
  if (!config.rootless || inside) return host;
  if (uid === 0) {
    log.warn("--rootless changes nothing for root: builds run without a user namespace");
    return host;
  }
  if (deploy.needsRoot) {
    throw new SvcError(
      "unsupported",
      `Cannot serve with --rootless and SVC_DEPLOY_BACKEND=${deploy.name}: its containers need ` +
        "the host's root, for their networks, ports and limits",
      { help: "leave SVC_DEPLOY_BACKEND unset to build only, or run the server as root" },
    );
  }
  if (worker.needsRoot) {
    throw new SvcError(
      "unsupported",
      `Cannot serve with --rootless and SVC_BUILD_WORKER=${worker.name}: it runs steps and keeps ` +
        "their files as the host's root, which a server in a user namespace cannot share",
      { help: "leave SVC_BUILD_WORKER unset, or run the server as root without --rootless" },
    );
  }
  const refused = await enterRootless({
    env,
    args,
    log,
    beforeEntering: async () => {
      await endOrphans(host, log);
      flush();
    },
  });
  log.warn("--rootless does not help here: this process cannot build", { reason: refused });
  return { ...host, refused };
}

const elsewhere = () => ({ uid: Deno.build.os === "windows" ? null : Deno.uid(), inside: false });

/**
 * Build steps outlive a killed server, in a user namespace that the next server does not enter. They are killed
 * here.
 */
async function endOrphans({ dataDir, buildState }: ServerHost, log: Logger): Promise<void> {
  try {
    using _lock = await acquireLock(join(dataDir, "lock"));
    const count = await killContainers(buildState);
    if (count > 0) log.info("ended steps that an earlier server left running", { count });
  } catch (error) {
    // There is no data directory yet, or its server runs: the steps belong to that server, and this start fails
    // later.
    if (error instanceof Deno.errors.NotFound) return;
    if (error instanceof SvcError && error.code === "data_dir_locked") return;
    throw error;
  }
}
