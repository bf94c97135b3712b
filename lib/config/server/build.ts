/** SPEC "Build engine", and the build's share of "Limits". */
import { notNegative, positive } from "../checks.ts";
import type { AnyOption } from "../load.ts";

const section = "Build engine";

export const BUILD = [
  {
    key: "buildConcurrency",
    // Not an int: what cannot be read falls back to the default (SPEC "Limits").
    kind: "string",
    env: ["SVC_BUILD_CONCURRENCY"],
    defaultText: "number of CPUs",
    section,
    help: "Builds that run at the same time; further ones wait. Anything but a positive number " +
      "means the default.",
  },
  {
    key: "maxBuildContextBytes",
    kind: "bytes",
    env: ["SVC_MAX_BUILD_CONTEXT_BYTES"],
    defaultText: "unlimited",
    section,
    help: "Upper bound on the size of an uploaded build context.",
    check: positive,
  },
  {
    key: "maxBuildDownloadBytes",
    kind: "bytes",
    env: ["SVC_MAX_BUILD_DOWNLOAD_BYTES"],
    default: 16 * 2 ** 30,
    defaultText: "16Gi",
    section,
    help:
      "Upper bound on the size of what one ADD of a URL, a fetched context or one file of git " +
      "brings in. 0: none.",
    check: notNegative,
  },
  {
    key: "buildPidsLimit",
    kind: "int",
    env: ["SVC_BUILD_PIDS_LIMIT"],
    default: 4096,
    section,
    help:
      "Processes and threads that one RUN may have at once; with more, the command cannot start " +
      'another ("Resource temporarily unavailable"). 0: no limit but the host\'s.',
    check: notNegative,
  },
  {
    key: "buildCacheKeepBytes",
    kind: "bytes",
    env: ["SVC_BUILD_CACHE_KEEP_BYTES"],
    defaultText: "unlimited",
    section,
    help:
      "Ceiling of the build cache on disk: after each build and by garbage collection the least " +
      "recently used goes until it fits. What running builds and workloads use stays.",
  },
  {
    key: "buildEntitlements",
    kind: "list",
    env: ["SVC_BUILD_ENTITLEMENTS"],
    choices: ["security.insecure", "device"],
    defaultText: "none",
    section,
    help:
      "What builds may ask for with `--allow`: security.insecure runs RUN --security=insecure with " +
      "all rights of the server, which is root on its host for whoever may build; device gives RUN " +
      "--device any device that the host's CDI files describe.",
  },
  {
    key: "buildWorker",
    kind: "string",
    env: ["SVC_BUILD_WORKER"],
    choices: ["runc", "containerd"],
    default: "runc",
    defaultText: "runc: in-process build worker",
    section,
    help:
      "Who runs builds: runc, in this process with SVC_BARE_RUNTIME; or containerd, the host's " +
      "(SVC_CONTAINERD_ADDRESS), which runs the steps, keeps snapshots and pulled layers, and gets each " +
      "built image under its name (`ctr -n svc images ls`), unless its output says store=false. Its own " +
      "database holds a step's environment, secrets in it included, while the step runs.",
  },
  {
    key: "lazyBuild",
    kind: "bool",
    env: ["SVC_LAZY_BUILD"],
    default: false,
    section,
    help:
      "What RUN mounts of a --build-context folder is read on demand (FUSE), for every build. " +
      "Otherwise for those that ask for it with --lazy.",
  },
] as const satisfies readonly AnyOption[];

/** SVC_BUILD_CONCURRENCY as a number; what is not a positive one means `cpus`. */
export function buildConcurrency(text: string | undefined, cpus: number): number {
  const value = /^\s*\d+\s*$/.test(text ?? "") ? Number(text) : 0;
  return value > 0 && Number.isSafeInteger(value) ? value : Math.max(1, cpus);
}

/** What the build routes hold callers to. */
export function buildLimits(
  config: { buildConcurrency?: string; maxBuildContextBytes?: number; lazyBuild: boolean },
  cpus: number,
) {
  const { maxBuildContextBytes, lazyBuild } = config;
  return {
    buildConcurrency: buildConcurrency(config.buildConcurrency, cpus),
    maxBuildContextBytes,
    lazyBuild,
  };
}
