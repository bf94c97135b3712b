/** Podman's API service, as root and rootless, with storage and networks of the test's own. */
import { join } from "node:path";
import { type RunOutput, runTool } from "../e2e/harness.ts";
import { type Inside, startNamespace } from "./namespace.ts";

export interface PodmanOptions {
  /** Default "4.3", which is the host's own; "5" comes from Debian's unstable suite. */
  version?: "4.3" | "5";
  /** As an ordinary user. Default: as root. */
  rootless?: boolean;
  /** A second service listens on the loopback interface of its network. */
  tcp?: boolean;
  /** Path of the OCI runtime; default runc, or crun where there is one version of control groups. */
  runtime?: string;
}

export interface PodmanPeer extends AsyncDisposable {
  /** Path of the API's unix socket. */
  readonly socket: string;
  /** "tcp://127.0.0.1:PORT", to be reached from within its network. */
  readonly tcp: string;
  /** See `Namespace.enter`: published ports are on 127.0.0.1 then, and containers of root have their addresses. */
  enter(): Disposable;
  /** See `Namespace.inside`. */
  inside(...command: string[]): string[];
  /** Podman's own command, on the same storage; throws where it fails. */
  podman(...args: string[]): Promise<RunOutput>;
  /** Ends the service; containers run on. */
  stop(): Promise<void>;
  /** Ends the service without notice. */
  kill9(): Promise<void>;
  start(): Promise<void>;
}

/** What tests with podman need of the host, for `requireTools`. */
export const PODMAN_COMMANDS = [
  ...["podman", "runc", "conmon", "busybox", "unshare", "nsenter", "ip", "iptables"],
  ...["newuidmap", "slirp4netns", "tini-static"],
];
export const PODMAN_FILES = ["/usr/lib/podman/netavark", "/usr/lib/podman/aardvark-dns"];

const READY_MS = 120_000;
const PORT = 8085;
/** The ordinary user, who is one in the namespace only. */
export const PODMAN_USER = 64_321;
/** Podman 4.3 refuses to clean up where the path of its state is longer than 50 characters. */
const RUNTIME_DIR = `/run/user/${PODMAN_USER}`;

/**
 * Works without CAP_SYS_RESOURCE and on hosts with both versions of control groups, where the defaults do
 * not: podman 5 knows the second version only, and gets that alone.
 */
const engineConf = (folder: string, version: string, groups: string, runtime?: string) =>
  `[containers]
default_ulimits = ["nofile=20000:20000", "nproc=4096:4096"]
${groups === "v2" ? "pids_limit = 0" : ""}
[engine]
${version === "5" ? "" : 'init_path = "/usr/bin/tini-static"'}
runtime = "${runtime ? "test" : groups === "v2" ? "crun" : "runc"}"
cgroup_manager = "cgroupfs"
events_logger = "file"
${runtime ? `[engine.runtimes]\ntest = ["${runtime}"]` : ""}
[network]
network_backend = "netavark"
network_config_dir = "${folder}/networks"
`;

const storageConf = (folder: string, rootless: boolean) =>
  `[storage]
driver = "overlay"
graphroot = "${folder}/storage"
runroot = "${rootless ? RUNTIME_DIR : "/run"}/containers"
`;

/** Shell commands that make the namespace a place for it. */
const setupOf = (groups: string, rootless: boolean) =>
  [
    groups === "v2"
      ? "mount -t tmpfs tmpfs /sys/fs/cgroup && mount -t cgroup2 cgroup2 /sys/fs/cgroup"
      : "",
    // Its locks are in it, and a podman that finds no state of its own there frees those of all.
    "mount -t tmpfs -o mode=1777 tmpfs /dev/shm",
    // Nobody out there answers, and who asks for a name would wait for that.
    'echo "nameserver 127.0.0.1" >"$1/resolv.conf" && mount --bind "$1/resolv.conf" /etc/resolv.conf',
    // An address to go out by, or a rootless network has nothing to take after.
    "ip link add out type veth peer name far && ip addr add 198.18.0.1/24 dev out",
    "ip link set out up && ip link set far up",
    "ip route add default via 198.18.0.254",
    ...(rootless
      ? [
        `for file in passwd group subuid subgid; do
           if [ -e "/etc/$file" ]; then cat "/etc/$file"; fi >"$1/$file"
         done`,
        `echo "tester:x:${PODMAN_USER}:${PODMAN_USER}::$1/home:/bin/sh" >>"$1/passwd"`,
        `echo "tester:x:${PODMAN_USER}:" >>"$1/group"`,
        `for file in subuid subgid; do echo "tester:2000000000:65536" >>"$1/$file"; done`,
        `for file in passwd group subuid subgid; do
           [ -e "/etc/$file" ] || touch "/etc/$file"
           mount --bind "$1/$file" "/etc/$file"
         done`,
        `chown ${PODMAN_USER}:${PODMAN_USER} "$1" "$1/home" "$1/networks"`,
        `mkdir -p ${RUNTIME_DIR} && chown ${PODMAN_USER}:${PODMAN_USER} ${RUNTIME_DIR}`,
        // The user's own, who may use these of the host's only where its rules say so.
        "mount -t tmpfs tmpfs /mnt && mknod /mnt/tun c 10 200 && mknod /mnt/fuse c 10 229",
        "chmod 666 /mnt/tun /mnt/fuse",
        "[ ! -e /dev/net/tun ] || mount --bind /mnt/tun /dev/net/tun",
        "[ ! -e /dev/fuse ] || mount --bind /mnt/fuse /dev/fuse",
      ]
      : []),
  ].join("\n");

export async function startPodman(options: PodmanOptions = {}): Promise<PodmanPeer> {
  const { version = "4.3", rootless = false } = options;
  const groups = version === "5" || rootless ? "v2" : "the host's";
  const folder = await Deno.makeTempDir({ prefix: "svc-podman-" });
  await Deno.chmod(folder, 0o755);
  for (const name of ["home", "networks"]) await Deno.mkdir(join(folder, name));
  await Deno.writeTextFile(
    join(folder, "containers.conf"),
    engineConf(folder, version, groups, options.runtime),
  );
  await Deno.writeTextFile(join(folder, "storage.conf"), storageConf(folder, rootless));
  const namespace = await startNamespace(folder, {
    unstable: version === "5",
    setup: setupOf(groups, rootless),
  });
  const env = {
    HOME: join(folder, "home"),
    XDG_RUNTIME_DIR: RUNTIME_DIR,
    CONTAINERS_CONF: join(folder, "containers.conf"),
    CONTAINERS_STORAGE_CONF: join(folder, "storage.conf"),
    PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
  };
  const user = ["setpriv", `--reuid=${PODMAN_USER}`, `--regid=${PODMAN_USER}`, "--clear-groups"];
  const command = (...args: string[]) => [
    ...(rootless ? user : []),
    ...["env", "-i", "-C", folder],
    ...Object.entries(env).map(([name, value]) => `${name}=${value}`),
    ...["podman", ...args],
  ];
  const socket = join(folder, "podman.sock");
  const tcp = options.tcp ? `tcp://127.0.0.1:${PORT}` : "";
  const log = join(folder, "log");
  let services: Inside[] = [];

  const end = async (signal: Deno.Signal) => {
    // Rootless podman starts itself once more in its user namespace, and ends with that.
    for (const service of services) await service.signal(signal, rootless ? "child" : undefined);
    await Promise.all(services.map(({ ended }) => ended));
  };
  const start = async () => {
    services = [];
    // One after the other: the first makes the storage.
    for (const address of [`unix://${socket}`, ...(tcp ? [tcp] : [])]) {
      const service = namespace.start(command("system", "service", "-t", "0", address), { log });
      services.push(service);
      const ready = () => address === tcp ? listens(PORT) : answers(socket);
      for (const until = Date.now() + READY_MS; !await ready();) {
        if (service.hasEnded() || Date.now() > until) {
          throw new Error(`podman ${version} did not start:\n${await Deno.readTextFile(log)}`);
        }
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    }
  };
  const listens = (port: number) => {
    const entry = `:${port.toString(16).toUpperCase()} 00000000:0000 0A`;
    const [program, ...args] = namespace.inside("grep", "-q", entry, "/proc/net/tcp");
    return runTool(program, args).then(() => true, () => false);
  };
  const podman = (...args: string[]) => {
    const [program, ...rest] = namespace.inside(...command(...args));
    return runTool(program, rest);
  };
  const dispose = async () => {
    // Their control groups go with them.
    if (services.length > 0) await podman("rm", "-af", "-t", "0").catch(() => {});
    await namespace[Symbol.asyncDispose]();
    await Deno.remove(folder, { recursive: true });
  };
  try {
    await start();
  } catch (error) {
    await dispose();
    throw error;
  }
  return {
    ...{ socket, tcp, podman, start },
    stop: () => end("SIGTERM"),
    kill9: () => end("SIGKILL"),
    enter: namespace.enter,
    inside: namespace.inside,
    [Symbol.asyncDispose]: dispose,
  };
}

/** A podman in the host's own namespaces. */
export interface HostPodman {
  /** Path of the folder that it is in, for PATH. */
  bin: string;
  /** Throws where it fails. */
  podman(...args: string[]): Promise<RunOutput>;
  /** The process of the API service that was started last. */
  servicePid(): Promise<number>;
}

/** Writes a podman with all its files in the folder, whose path is short; its containers may have no network. */
export async function writePodman(folder: string): Promise<HostPodman> {
  const bin = join(folder, "bin");
  await Deno.mkdir(bin);
  const [engine, storage, pid] = ["containers.conf", "storage.conf", "pid"].map((name) =>
    join(folder, name)
  );
  const conf = engineConf(folder, "4.3", "the host's");
  // Locks in memory are shared by all podmans of the host.
  await Deno.writeTextFile(engine, conf.replace("[engine]", '[engine]\nlock_type = "file"'));
  await Deno.writeTextFile(
    storage,
    `[storage]\ndriver = "vfs"\ngraphroot = "${folder}/storage"\nrunroot = "${folder}/run"\n`,
  );
  await Deno.writeTextFile(
    join(bin, "podman"),
    `#!/bin/sh\n[ "$1" != system ] || echo $$ >"${pid}"\nPATH="${Deno.env.get("PATH")}"\n` +
      `export PATH CONTAINERS_CONF="${engine}" CONTAINERS_STORAGE_CONF="${storage}"\n` +
      `exec podman --tmpdir "${folder}/tmp" "$@"\n`,
    { mode: 0o755 },
  );
  return {
    bin,
    podman: (...args) => runTool(join(bin, "podman"), args),
    servicePid: async () => Number(await Deno.readTextFile(pid)),
  };
}

async function answers(path: string): Promise<boolean> {
  const client = Deno.createHttpClient({ proxy: { transport: "unix", path } });
  try {
    const response = await fetch("http://podman/_ping", { client });
    await response.body?.cancel();
    return response.ok;
  } catch {
    return false; // not there yet
  } finally {
    client.close();
  }
}
