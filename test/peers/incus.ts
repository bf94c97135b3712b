/** Incus of Debian's unstable suite, in namespaces and with data of the test's own. */
import { join } from "node:path";
import { type RunOutput, runTool } from "../e2e/harness.ts";
import { type Inside, programsIn, startNamespace } from "./namespace.ts";

const PROGRAMS = programsIn("incus-1");

/** For `requireTools`: the programs are there once `incus.sh` has run. */
export const INCUS_NEEDS = {
  root: true,
  commands: ["busybox", "docker-registry", "ip", "nsenter", "skopeo", "tini-static", "unshare"],
  files: [join(PROGRAMS, "ready")],
};

export interface IncusPeer extends AsyncDisposable {
  /** Path of the daemon's unix socket. */
  readonly socket: string;
  /** Has the daemon's host know a registry, host:port, as one of plain HTTP. */
  trust(registry: string): Promise<void>;
  /** See `Namespace.enter`. */
  enter(): Disposable;
  /** Incus's own command; throws where it fails. */
  incus(...args: string[]): Promise<RunOutput>;
  /** Ends the daemon; instances run on. */
  stop(): Promise<void>;
  /** Ends the daemon without notice. */
  kill9(): Promise<void>;
  start(): Promise<void>;
}

const READY_MS = 120_000;

/** Its devices are of its network, its control groups of the second version; users and registries are the test's. */
const SETUP = `
mount -t sysfs sysfs /sys
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p /sys/fs/cgroup/$(basename "$1")
echo $$ > /sys/fs/cgroup/$(basename "$1")/cgroup.procs
for file in subuid subgid; do
  echo "root:1000000:65536000" > "$1/$file"
  [ -e "/etc/$file" ] || touch "/etc/$file"
  mount --bind "$1/$file" "/etc/$file"
done
mkdir -p "$1/registries" /etc/containers/registries.conf.d
mount --bind "$1/registries" /etc/containers/registries.conf.d`;

/** `without`: programs that the daemon does not find. */
export async function startIncus(
  { without = [] }: { without?: readonly string[] } = {},
): Promise<IncusPeer> {
  const folder = await Deno.makeTempDir({ prefix: "svc-incus-" });
  await Deno.chmod(folder, 0o755);
  const hide = without.map((name) => `mount --bind /dev/null "$(command -v ${name})"`);
  const namespace = await startNamespace(folder, {
    unstable: PROGRAMS,
    setup: [SETUP, ...hide].join("\n"),
  });
  const data = join(folder, "incus");
  const env = {
    HOME: folder,
    INCUS_DIR: data,
    INCUS_SECURITY_APPARMOR: "false",
    PATH: "/usr/libexec/incus:/usr/sbin:/usr/bin:/sbin:/bin",
  };
  const command = (...args: string[]) => [
    ...["env", "-i"],
    ...Object.entries(env).map(([name, value]) => `${name}=${value}`),
    ...args,
  ];
  const socket = join(data, "unix.socket");
  const log = join(folder, "incusd.log");
  let daemon: Inside;

  const incus = (...args: string[]) => {
    const [program, ...rest] = namespace.inside(...command("incus", ...args));
    return runTool(program, rest);
  };
  const end = async (signal: Deno.Signal) => {
    await daemon.signal(signal);
    await daemon.ended;
  };
  const start = async () => {
    daemon = namespace.start(command("incusd", "--group", "root"), { log });
    const ready = () => incus("query", "/1.0").then(() => true, () => false);
    for (const until = Date.now() + READY_MS; !await ready();) {
      if (daemon.hasEnded() || Date.now() > until) {
        throw new Error(`Incus did not start:\n${await Deno.readTextFile(log)}`);
      }
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  };
  const dispose = async () => {
    await namespace[Symbol.asyncDispose]();
    await Deno.remove(folder, { recursive: true });
  };
  try {
    await start();
    await incus("storage", "create", "default", "dir");
    await incus("profile", "device", "add", "default", "root", "disk", "path=/", "pool=default");
  } catch (error) {
    await dispose();
    throw error;
  }
  return {
    ...{ socket, incus, start },
    trust: (registry) =>
      Deno.writeTextFile(
        join(folder, "registries/svc.conf"),
        `[[registry]]\nlocation = "${registry}"\ninsecure = true\n`,
      ),
    // SIGQUIT: it lets the instances run on.
    stop: () => end("SIGQUIT"),
    kill9: () => end("SIGKILL"),
    enter: namespace.enter,
    [Symbol.asyncDispose]: dispose,
  };
}
