/** SPEC "Build engine", and the build's share of "Limits". */
import { parseBytes } from "../../base/bytes.ts";
import { invalid, notNegative, oneOf, positive } from "../checks.ts";
import { optionTable } from "../table.ts";

const section = "Build engine";

export const BUILD = optionTable([
  {
    key: "buildConcurrency",
    // Not an int: an invalid value means the default (SPEC "Limits").
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
    help: "Upper bound on the size of an uploaded build context, packed and unpacked.",
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
      "Largest download of one ADD of a URL, one fetched context or one file of git. 0: no limit.",
    check: notNegative,
  },
  {
    key: "maxBuildUnpackedBytes",
    kind: "bytes",
    env: ["SVC_MAX_BUILD_UNPACKED_BYTES"],
    default: 64 * 2 ** 30,
    defaultText: "64Gi",
    section,
    help: "Largest uncompressed size of one archive (one that ADD unpacks, or a context where " +
      "SVC_MAX_BUILD_CONTEXT_BYTES is not set), of the layers of one base image, and of one layer or " +
      "folder of an imported cache. 0: no limit.",
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
      'another ("Resource temporarily unavailable"). 0: no limit but the host\'s. ' +
      "A rootless server's steps have it together.",
    check: notNegative,
  },
  {
    key: "buildStepTimeout",
    kind: "duration",
    env: ["SVC_BUILD_STEP_TIMEOUT"],
    default: 4 * 3_600_000,
    defaultText: "4h",
    placeholder: "DURATION",
    section,
    help: "Time limit of one build step; the build fails where a step takes longer. 0: no limit.",
    check: notNegative,
  },
  {
    key: "buildTimeout",
    kind: "duration",
    env: ["SVC_BUILD_TIMEOUT"],
    default: 12 * 3_600_000,
    defaultText: "12h",
    placeholder: "DURATION",
    section,
    help:
      "Time limit of one build, from its context to its result, without the wait for its turn. 0: no " +
      "limit.",
    check: notNegative,
  },
  {
    key: "buildCacheKeepBytes",
    kind: "bytes",
    env: ["SVC_BUILD_CACHE_KEEP_BYTES"],
    defaultText: "unlimited",
    section,
    help:
      "Largest size of the build cache on disk. After each build, and by garbage collection, the least " +
      "recently used entries are removed until the cache fits. Entries that running builds and " +
      "workloads use stay.",
  },
  {
    key: "buildEntitlements",
    kind: "list",
    env: ["SVC_BUILD_ENTITLEMENTS"],
    placeholder: "RIGHTS",
    defaultText: "none",
    section,
    help:
      "Rights that builds may ask for with `--allow`. security.insecure: RUN --security=insecure has " +
      "all rights of the server, which is root on its host for every caller who may build. " +
      "network.host: RUN --network=host is in the host's network, with its loopback and abstract " +
      "sockets. device: RUN --device may use any device that the host's CDI files describe; " +
      "device=NAME: only those that RUN --device=NAME means, such as device=vendor.example/gpu=0, or " +
      "=* for all of a kind. cache.shared: builds may use the cache mounts that all callers share, " +
      "where SVC_API_POLICY gives each caller its own.",
    check: (value, source) => {
      const wrong = value.find((text) =>
        !/^(security\.insecure|network\.host|cache\.shared|device(=[^\s,]+)?)$/.test(text)
      );
      if (wrong === undefined) return value;
      const known = "security.insecure, network.host, cache.shared, device or device=NAME";
      throw invalid(source, `${JSON.stringify(wrong)} is not one of ${known}`);
    },
  },
  {
    key: "buildNetwork",
    kind: "string",
    env: ["SVC_BUILD_NETWORK"],
    choices: ["bridge", "none", "host"],
    default: "bridge",
    section,
    help:
      "Network of a RUN that names none. bridge: a network of its own with outbound access as on " +
      "docker's bridge, by CNI plugins (SVC_CNI_BIN_DIR), in a rootless server by pasta or " +
      "slirp4netns. none: no network. host: the host's network; every Dockerfile then reaches what the " +
      "host reaches, its loopback and this server included.",
  },
  {
    key: "lazyBuild",
    kind: "bool",
    env: ["SVC_LAZY_BUILD"],
    default: false,
    section,
    help:
      "Reads the --build-context folders that a RUN mounts on demand (SVC_LAZY_9P), in every build. " +
      "Off: only in builds with --lazy.",
  },
  {
    key: "lazy9p",
    kind: "string",
    env: ["SVC_LAZY_9P"],
    default: "auto",
    section,
    help:
      "How contexts that are read on demand are mounted: kernel (its 9P client), fuse, process (no " +
      "mount: the files are fetched before the step runs), or auto, the first of these that works. One " +
      "that fails is logged, and the next is tried. msize=BYTES sets the size of the kernel's " +
      "requests: kernel,msize=1Mi.",
    check: (value, source) => {
      lazyReading(value, source);
      return value;
    },
  },
]);

const LAZY_WAYS = {
  auto: ["kernel", "fuse"],
  kernel: ["kernel", "fuse"],
  fuse: ["fuse"],
  process: [],
} as const;

/** Message sizes that the kernel accepts. */
const MSIZE = { least: 4096, most: 1 << 20 };

/** SVC_LAZY_9P: one of the modes and `msize`, separated by commas or spaces. Throws `config_invalid`. */
export function lazyReading(
  text: string,
  source = "SVC_LAZY_9P",
): { ways: readonly ("kernel" | "fuse")[]; msize?: number } {
  let way: keyof typeof LAZY_WAYS = "auto";
  let msize: number | undefined;
  for (const word of text.split(/[\s,]+/).filter(Boolean)) {
    const size = /^msize=(.+)$/.exec(word)?.[1];
    if (size === undefined) {
      way = oneOf(Object.keys(LAZY_WAYS))(word, source) as keyof typeof LAZY_WAYS;
      continue;
    }
    msize = parseBytes(size);
    if (msize < MSIZE.least || msize > MSIZE.most) {
      throw invalid(source, `msize=${size} is not between ${MSIZE.least} and ${MSIZE.most}`);
    }
  }
  return { ways: LAZY_WAYS[way], ...msize !== undefined && { msize } };
}

/** SVC_BUILD_CONCURRENCY as a number; anything but a positive number means `cpus`. */
export function buildConcurrency(text: string | undefined, cpus: number): number {
  const value = /^\s*\d+\s*$/.test(text ?? "") ? Number(text) : 0;
  return value > 0 && Number.isSafeInteger(value) ? value : Math.max(1, cpus);
}

/** The build routes' limits for callers. */
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
