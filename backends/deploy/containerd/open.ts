/** The containerd backend's entry for the table: its settings, and the checks at the server's start. */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { SvcError } from "../../../lib/base/errors.ts";
import { ensureDir } from "../../../lib/base/fs.ts";
import { locate } from "../../../lib/base/locate.ts";
import { sleep } from "../../../lib/base/sleep.ts";
import { ContainerdClient } from "../../../lib/containerd/client.ts";
import { openContainerdRegistry } from "../../../lib/containerd/registry/mod.ts";
import { openContainerdSnapshots } from "../../../lib/containerd/snapshots.ts";
import type { DeployBackend } from "../../../lib/deploy/backend.ts";
import { openHostBackend } from "../../../lib/deploy/host/backend.ts";
import type { HostConfig } from "../../../lib/deploy/host/config.ts";
import { checkOwnNetwork } from "../../../lib/deploy/host/own_network.ts";
import { type HostPaths, hostPaths } from "../../../lib/deploy/host/paths.ts";
import { checkHost } from "../../../lib/deploy/host/prerequisites.ts";
import { SnapshotRoots } from "../../../lib/deploy/host/roots.ts";
import type { CompanionOptions } from "../../../lib/deploy/companions.ts";
import type { BackendModule, BackendParts } from "../../../lib/deploy/module.ts";
import { proven } from "../../../lib/runtime/proof.ts";
import { createRuntime } from "../../../lib/runtime/runc.ts";
import { tryLock } from "../../../lib/sys/fd.ts";
import { ContainerdEngine, type Tools } from "./engine.ts";
import { CONTAINERD_FIELDS } from "./fields.ts";
import type { ContainerdSettings } from "./options.ts";
import { writePrograms } from "./programs.ts";

/** Milliseconds that somebody may hold the server's lock who only looks whether a server lives. */
const LOCK_PATIENCE = 10_000;
const LOCK_LOOK = 10;

/** Values of the server's options of the same names. */
export interface ContainerdConfig extends HostConfig {
  /** SVC_CONTAINERD_ADDRESS: path of the socket. */
  address: string;
  namespace: string;
  snapshotter: string;
  /** SVC_CONTAINERD_LOG_MAX_BYTES. */
  logLimit: number;
  /** SVC_RUNTIME: the program that containerd's shim runs. */
  runtime: string;
  /** SVC_WORKLOAD_START_TIMEOUT, in milliseconds. */
  startMs: number;
}

export interface ContainerdOptions extends Omit<BackendParts, "snapshotter"> {
  beside?: CompanionOptions;
  config: ContainerdConfig;
}

/** Held as long as this server lives. Throws `conflict` where another server uses the folder. */
async function serve(path: string): Promise<Disposable> {
  for (
    const until = performance.now() + LOCK_PATIENCE;
    performance.now() < until;
    await sleep(LOCK_LOOK)
  ) {
    const lock = tryLock(path);
    if (lock) return lock;
  }
  throw new SvcError("conflict", `Cannot deploy: another server holds ${path}`, {
    help: "end it, or start this server with another --data-dir",
  });
}

/** The runtime and the programs that the shims call. Throws where one is missing or cannot run a container here. */
async function findTools(
  { dataDir, runDir, config }: Pick<ContainerdOptions, "dataDir" | "runDir" | "config">,
  { root, serving, paths }: { root: string; serving: string; paths: HostPaths },
): Promise<Tools> {
  const { logLimit } = config;
  const [found] = await Promise.all([locate(config.runtime), checkHost()]);
  // The shim keeps a folder per namespace below it.
  const state = join(paths.runtime, config.namespace);
  await ensureDir(state, 0o700);
  const runtime = await createRuntime({ binary: found ?? config.runtime, root: state });
  await proven(runtime, { folder: dataDir, runDir });
  const { instances, logs } = paths;
  const { binary } = runtime;
  const programs = await writePrograms(root, {
    ...{ instances, logs, serving, runtime: binary, logLimit },
  });
  return { runtime, programs };
}

/** All files are below `containerd` in the data directory. */
export async function createContainerdBackend(options: ContainerdOptions): Promise<DeployBackend> {
  const { dataDir, runDir, config, images, log, namespaces, beside, unpack } = options;
  const { address, namespace, startMs, snapshotter } = config;
  const paths = hostPaths("containerd", dataDir, runDir);
  const root = join(dataDir, "containerd");
  const serving = join(root, "serving");
  await ensureDir(root, 0o700);
  const lock = await serve(serving);
  const client = new ContainerdClient({ address, namespace });
  const owner = createHash("sha256").update(root).digest("hex").slice(0, 12);
  const registry = openContainerdRegistry({ client, owner, log });
  const roots = new SnapshotRoots({
    snapshotter: () =>
      openContainerdSnapshots({
        ...{ client, snapshotter, owner, log },
        root: join(root, "snapshots"),
      }),
    ...{ unpack, prefix: "deploy", instances: paths.instances },
  });
  const close = async () => {
    await registry[Symbol.asyncDispose]();
    await client[Symbol.asyncDispose]();
  };
  const engine = new ContainerdEngine({
    ...{ client, owner, paths, roots, startMs },
    findTools: () => findTools(options, { root, serving, paths }),
    release: () => {
      lock[Symbol.dispose]();
      close().catch(() => {/* it is gone */});
    },
  });
  try {
    return await openHostBackend({
      name: "containerd",
      ...{ paths, config, engine, images, namespaces, beside, log },
      fields: CONTAINERD_FIELDS,
      more: {
        images: registry.images,
        pruneImages: (options) => roots.prune(options),
        // docs/spec: only by a companion.
        noCallerMounts: {
          why: "on containerd they need companions, as SVC_CONTAINERD_REMOTE is off",
          help: "start the server with SVC_CONTAINERD_REMOTE=1, or leave out --mount",
        },
      },
    });
  } catch (error) {
    engine.close();
    throw error;
  }
}

export function containerdModule(settings: ContainerdSettings): BackendModule {
  return {
    takesOver: true,

    /** SPEC's errors: published ports of a network of the server's own container would be nobody's. */
    async validate(log) {
      await checkOwnNetwork({ hostNetwork: settings.hostNetwork, backend: "containerd", log });
    },

    open: (parts) =>
      createContainerdBackend({
        ...parts,
        ...parts.caretakers && {
          beside: {
            caretakers: parts.caretakers,
            variable: "SVC_CONTAINERD_REMOTE",
            always: settings.containerdRemote,
          },
        },
        config: {
          address: settings.containerdAddress,
          namespace: settings.containerdNamespace,
          snapshotter: settings.containerdSnapshotter,
          logLimit: settings.containerdLogMaxBytes,
          runtime: settings.runtime,
          cniBinDir: settings.cniBinDir,
          cniSubnetBase: settings.cniSubnetBase,
          dns: true,
          allowBindSources: settings.allowBindSources,
          allowPrivileged: settings.allowPrivileged,
          pidsLimit: settings.workloadPidsLimit,
          startMs: settings.workloadStartTimeout,
        },
      }),
  };
}
