/** What this process may give to a container: capabilities, hard limits, file systems, cgroup version. */
import { dirname } from "node:path";
import { CAPABILITIES } from "../base/capabilities.ts";
import { exists } from "../base/fs.ts";
import { inUserNamespace } from "../sys/userns.ts";

/** Limits of setrlimit(2), by their names in config.json and their rows in /proc/self/limits. */
const LIMIT_ROWS: Record<string, string> = {
  RLIMIT_CPU: "Max cpu time",
  RLIMIT_FSIZE: "Max file size",
  RLIMIT_DATA: "Max data size",
  RLIMIT_STACK: "Max stack size",
  RLIMIT_CORE: "Max core file size",
  RLIMIT_RSS: "Max resident set",
  RLIMIT_NPROC: "Max processes",
  RLIMIT_NOFILE: "Max open files",
  RLIMIT_MEMLOCK: "Max locked memory",
  RLIMIT_AS: "Max address space",
  RLIMIT_LOCKS: "Max file locks",
  RLIMIT_SIGPENDING: "Max pending signals",
  RLIMIT_MSGQUEUE: "Max msgqueue size",
  RLIMIT_NICE: "Max nice priority",
  RLIMIT_RTPRIO: "Max realtime priority",
  RLIMIT_RTTIME: "Max realtime timeout",
};

export interface HostFacts {
  /** Capabilities in this process's bounding set: no child can have more. */
  capabilities: ReadonlySet<string>;
  /** Hard limits; raising one needs CAP_SYS_RESOURCE. `Infinity` where unlimited. */
  hardLimits: Readonly<Record<string, number>>;
  /** True where the unified hierarchy is mounted at /sys/fs/cgroup; false for version 1 and hybrid. */
  cgroup2: boolean;
  filesystems: ReadonlySet<string>;
  /** This process is root only in a user namespace: it cannot mount or raise what belongs to the host. */
  userNamespace?: boolean;
  /** A cgroup can limit memory and swap together. */
  limitsSwap?: boolean;
  /** A container's own cgroup can count its processes. */
  countsProcesses?: boolean;
  /** "x86_64", "aarch64". */
  architecture: string;
}

/** Reads texts of /proc; separate from {@linkcode hostFacts} so that tests can pass their own. */
export function parseHostFacts(
  texts: { status: string; limits: string; filesystems: string },
  cgroup2: boolean,
  architecture: string = Deno.build.arch,
): HostFacts {
  const bounding = BigInt(`0x${/^CapBnd:\s*([0-9a-f]+)$/m.exec(texts.status)?.[1] ?? "0"}`);
  const permitted = BigInt(`0x${/^CapPrm:\s*([0-9a-f]+)$/m.exec(texts.status)?.[1] ?? "0"}`);
  const capabilities = new Set<string>();
  for (const [bit, name] of CAPABILITIES.entries()) {
    if ((bounding & permitted) >> BigInt(bit) & 1n) capabilities.add(name);
  }
  const hardLimits: Record<string, number> = {};
  for (const [name, row] of Object.entries(LIMIT_ROWS)) {
    const match = new RegExp(`^${row}\\s+\\S+\\s+(\\S+)`, "m").exec(texts.limits);
    if (match) hardLimits[name] = match[1] === "unlimited" ? Infinity : Number(match[1]);
  }
  const filesystems = new Set(
    texts.filesystems.split("\n").map((line) => line.split("\t").pop()!).filter(Boolean),
  );
  return { capabilities, hardLimits, cgroup2, filesystems, architecture };
}

const CGROUPS = "/sys/fs/cgroup";

/**
 * Whether runtimes can limit the processes of a cgroup that they make beside this process's own. With cgroup
 * version 2 the parent's controllers have to be on, or it must be possible to turn them on. That is not
 * possible while the parent holds processes itself, as in a container without a cgroup to divide.
 */
async function countsProcesses(cgroup2: boolean, own: string): Promise<boolean> {
  if (!cgroup2) return await exists(`${CGROUPS}/pids`);
  const path = /^0::(.*)$/m.exec(own)?.[1] ?? "/";
  const parent = `${CGROUPS}${dirname(path)}`;
  const words = (name: string) =>
    // Our own: the kernel's file of a cgroup.
    Deno.readTextFile(`${parent}/${name}`).then((text) => text.trim().split(/\s+/), () => [""]);
  if (!(await words("cgroup.controllers")).includes("pids")) return false;
  if ((await words("cgroup.subtree_control")).includes("pids")) return true;
  // The host's root cgroup has no type, and this rule does not apply to it.
  return !await exists(`${parent}/cgroup.type`) || (await words("cgroup.procs"))[0] === "";
}

function limitsSwap(cgroup2: boolean, own: string): Promise<boolean> {
  if (!cgroup2) return exists(`${CGROUPS}/memory/memory.memsw.limit_in_bytes`);
  const path = /^0::(.*)$/m.exec(own)?.[1] ?? "/";
  // The root cgroup has no limits: systemd's first process has a cgroup of its own.
  return exists(`${CGROUPS}${path === "/" ? "/init.scope" : path}/memory.swap.max`);
}

let known: Promise<HostFacts> | undefined;

/** The facts of this process and kernel, read once. */
export function hostFacts(): Promise<HostFacts> {
  known ??= (async () => {
    const [status, limits, filesystems, cgroup2, own] = await Promise.all([
      Deno.readTextFile("/proc/self/status"),
      Deno.readTextFile("/proc/self/limits"),
      Deno.readTextFile("/proc/filesystems"),
      exists(`${CGROUPS}/cgroup.controllers`),
      Deno.readTextFile("/proc/self/cgroup"),
    ]);
    const facts = parseHostFacts({ status, limits, filesystems }, cgroup2);
    const userNamespace = inUserNamespace();
    return {
      ...facts,
      userNamespace,
      limitsSwap: await limitsSwap(cgroup2, own),
      countsProcesses: !userNamespace && await countsProcesses(cgroup2, own),
    };
  })();
  return known;
}
