/** The mounts of a container: the kernel's file systems, then the requested ones. */
import type { HostFacts } from "./host_facts.ts";

export interface SpecMount {
  type: "bind" | "tmpfs";
  /** Host path of a bind; ignored for tmpfs. */
  source?: string;
  /** Absolute path in the container; made in the root if missing. */
  target: string;
  readOnly?: boolean;
  /** Of a bind whose source is a shared mount: what is mounted below it here appears there. */
  shared?: boolean;
  /** Bytes of a tmpfs. */
  size?: number;
  /** Octal text of a tmpfs's mode, "1777". */
  mode?: string;
  /** Further mount options, as mount(8) has them. */
  options?: string[];
}

export interface MountOptions {
  /** Come after /proc, /dev and /sys; a later mount wins over an earlier one of the same target. */
  mounts?: SpecMount[];
  /** /sys is writable. */
  privileged?: boolean;
  /** "host" shares the host's. */
  ipc?: "private" | "host";
  /** Bytes of /dev/shm; 64 MiB if absent. */
  shmSize?: number;
  /** The container has no network namespace of its own. */
  hostNetwork: boolean;
}

interface MountEntry {
  destination: string;
  type: string;
  source: string;
  options: string[];
}

const entry = (destination: string, type: string, source: string, ...options: string[]) => ({
  destination,
  type,
  source,
  options,
});

function userMount(mount: SpecMount): MountEntry {
  const access = mount.readOnly ? "ro" : "rw";
  if (mount.type === "tmpfs") {
    const given = mount.options ?? [];
    // Not both: crun keeps to the first of two that contradict each other.
    const usual = ["nosuid", "nodev", "noexec"].filter((flag) => !given.includes(flag.slice(2)));
    const options = [...usual, access, ...given];
    if (mount.size !== undefined) options.push(`size=${mount.size}`);
    if (mount.mode !== undefined) options.push(`mode=${mount.mode}`);
    return entry(mount.target, "tmpfs", "tmpfs", ...options);
  }
  return entry(
    mount.target,
    "bind",
    mount.source ?? "",
    "rbind",
    mount.shared ? "rshared" : "rprivate",
    access,
    ...(mount.options ?? []),
  );
}

/** /sys shows a network namespace: only its owner may mount it, other containers get the host's. */
function systemFiles(
  { hostNetwork }: MountOptions,
  { userNamespace }: HostFacts,
  access: string,
): MountEntry[] {
  const careful = ["nosuid", "noexec", "nodev"];
  if (userNamespace && hostNetwork) {
    return [entry("/sys", "none", "/sys", "rbind", "rprivate", ...careful, access)];
  }
  return [
    entry("/sys", "sysfs", "sysfs", ...careful, access),
    entry("/sys/fs/cgroup", "cgroup", "cgroup", ...careful, "relatime", access),
  ];
}

/** Every mount in the order the runtime has to make them; parents come before what is below them. */
export function deviceMounts(options: MountOptions, facts: HostFacts): MountEntry[] {
  const access = options.privileged ? "rw" : "ro";
  const system = [
    entry("/proc", "proc", "proc", "nosuid", "noexec", "nodev"),
    entry("/dev", "tmpfs", "tmpfs", "nosuid", "strictatime", "mode=755", "size=65536k"),
    entry(
      "/dev/pts",
      "devpts",
      "devpts",
      "nosuid",
      "noexec",
      "newinstance",
      "ptmxmode=0666",
      "mode=0620",
      "gid=5",
    ),
    ...systemFiles(options, facts, access),
  ];
  if (options.ipc === "host") {
    system.push(entry("/dev/shm", "bind", "/dev/shm", "rbind", "rprivate"));
  } else {
    const size = options.shmSize ?? 64 * 1024 ** 2;
    system.push(
      entry("/dev/shm", "tmpfs", "shm", "nosuid", "noexec", "nodev", "mode=1777", `size=${size}`),
    );
  }
  if (facts.filesystems.has("mqueue")) {
    system.push(entry("/dev/mqueue", "mqueue", "mqueue", "nosuid", "noexec", "nodev"));
  }
  const wanted = new Map<string, MountEntry>();
  for (const mount of options.mounts ?? []) wanted.set(mount.target, userMount(mount));
  const depth = (path: string) => path.split("/").filter(Boolean).length;
  const own = [...wanted.values()].sort((a, b) => depth(a.destination) - depth(b.destination));
  return [...system.filter((mount) => !wanted.has(mount.destination)), ...own];
}
