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
      "Upper bound on the size of what one ADD of a URL, a fetched context or one file of git " +
      "brings in. 0: none.",
    check: notNegative,
  },
  {
    key: "maxBuildUnpackedBytes",
    kind: "bytes",
    env: ["SVC_MAX_BUILD_UNPACKED_BYTES"],
    default: 64 * 2 ** 30,
    defaultText: "64Gi",
    section,
    help: "Upper bound on what one archive (one that ADD unpacks, or a context where " +
      "SVC_MAX_BUILD_CONTEXT_BYTES says nothing), the layers of one base image, or one layer or folder " +
      "of an imported cache have without their compression. 0: none.",
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
    help:
      "How long one step of a build may take; then it is ended, and the build fails. 0: any time.",
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
      "How long one build may take from its context to its result, the wait for its turn not counted; " +
      "then it is ended. 0: any time.",
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
    placeholder: "RIGHTS",
    defaultText: "none",
    section,
    help:
      "What builds may ask for with `--allow`: security.insecure runs RUN --security=insecure with " +
      "all rights of the server, which is root on its host for whoever may build; network.host runs RUN " +
      "--network=host in the host's network, its loopback and abstract sockets included; device gives RUN " +
      "--device any device that the host's CDI files describe, device=NAME those that RUN " +
      "--device=NAME means: device=vendor.example/gpu=0, or =* for all of a kind; cache.shared lets builds " +
      "use the cache mounts that all callers share, where SVC_API_POLICY gives each caller its own.",
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
      "The network of a RUN that names none: bridge, one of its own with the way out that docker's " +
      "bridge gives, by CNI plugins (SVC_CNI_BIN_DIR), in a rootless server by pasta or slirp4netns; " +
      "none; or host, where every Dockerfile reaches what the host reaches, its loopback and this " +
      "server included.",
  },
  {
    key: "lazyBuild",
    kind: "bool",
    env: ["SVC_LAZY_BUILD"],
    default: false,
    section,
    help:
      "What RUN mounts of a --build-context folder is read on demand (SVC_LAZY_9P), for every build. " +
      "Otherwise for those that ask for it with --lazy.",
  },
  {
    key: "lazy9p",
    kind: "string",
    env: ["SVC_LAZY_9P"],
    default: "auto",
    section,
    help:
      "How contexts that are read on demand are mounted: kernel (its 9P client), fuse, process " +
      "(not at all: what a step mounts is fetched before it runs), or auto, the first of these " +
      "that the machine allows. What it refuses is logged, and the next is taken. With " +
      "msize=BYTES the kernel asks for so much at once: kernel,msize=1Mi.",
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
