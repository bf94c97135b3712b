/** A containerd of the test's own. */
import { join } from "node:path";
import { ContainerdClient } from "../../lib/containerd/client.ts";
import { Version } from "../../lib/containerd/api.ts";
import { UNSTABLE } from "./namespace.ts";

const CGROUPS = "/sys/fs/cgroup";

export interface ContainerdPeer extends AsyncDisposable {
  /** Path of its socket. */
  readonly address: string;
  stop(): Promise<void>;
  kill9(): Promise<void>;
  /** Ends it as a reboot of the host does, with all that it runs and what it keeps below /run. */
  reboot(): Promise<void>;
  start(): Promise<void>;
}

export interface ContainerdOptions {
  /** containerd 2 of Debian's unstable suite, with its shim; see `unstable.sh`. */
  unstable?: boolean;
}

/** Runs containerd with its data, state and socket in `folder`, which must be on a local disk. */
export async function startContainerd(
  folder: string,
  { unstable }: ContainerdOptions = {},
): Promise<ContainerdPeer> {
  const programs = unstable ? `${join(UNSTABLE, "usr/bin")}:` : "";
  const address = join(folder, "containerd.sock");
  const config = join(folder, "config.toml");
  await Deno.writeTextFile(
    config,
    `version = 2
root = ${JSON.stringify(join(folder, "root"))}
state = ${JSON.stringify(join(folder, "state"))}
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
  address = ${JSON.stringify(address)}
[ttrpc]
  address = ${JSON.stringify(`${address}.ttrpc`)}
[plugins."io.containerd.internal.v1.opt"]
  path = ${JSON.stringify(join(folder, "opt"))}
[plugins."io.containerd.internal.v1.restart"]
  interval = "1s"
`,
  );
  let process: Deno.ChildProcess | undefined;
  let ended = true;
  let status: Promise<unknown> = Promise.resolve();

  const stop = async () => {
    if (!ended) process!.kill("SIGTERM");
    const timer = setTimeout(() => ended || process!.kill("SIGKILL"), 60_000);
    await status;
    clearTimeout(timer);
  };
  const kill9 = async () => {
    process!.kill("SIGKILL");
    await status;
  };
  const reboot = async () => {
    await kill9();
    await endShims(address);
    await Deno.remove(join(folder, "state"), { recursive: true });
  };
  const start = async () => {
    process = new Deno.Command("sh", {
      args: ["-c", 'exec containerd --config "$0" >>"$1" 2>&1', config, `${folder}/log`],
      env: { PATH: `${programs}${Deno.env.get("PATH")}:/usr/sbin:/sbin` },
      stdin: "null",
      stdout: "null",
      stderr: "null",
    }).spawn();
    ended = false;
    status = process.status.then(() => ended = true);
    const until = performance.now() + 120_000;
    for (;;) {
      try {
        await using client = new ContainerdClient({ address, namespace: "svc" });
        await client.call(Version, {}, "Cannot read the version");
        return;
      } catch (error) {
        if (ended || performance.now() > until) {
          await stop();
          const text = await Deno.readTextFile(`${folder}/log`);
          throw new Error(`containerd did not start:\n${text.slice(-3000)}`, { cause: error });
        }
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    }
  };
  await start();
  const dispose = async () => {
    await stop();
    await endShims(address);
    await removeRuntimeRoots();
  };
  return { address, stop, kill9, reboot, start, [Symbol.asyncDispose]: dispose };
}

/** Containers outlive containerd: what a failed test left running ends here. */
async function endShims(address: string): Promise<void> {
  for await (const { name: pid } of Deno.readDir("/proc")) {
    if (!/^\d+$/.test(pid)) continue;
    const read = (file: string) => Deno.readTextFile(`/proc/${pid}/${file}`).catch(() => "");
    const words = (await read("cmdline")).split("\0");
    if (!words[0].includes("containerd-shim") || !words.includes(address)) continue;
    const children = (await read(`task/${pid}/children`)).trim().split(" ").filter(Boolean);
    for (const victim of [...children, pid]) {
      try {
        Deno.kill(Number(victim), "SIGKILL");
      } catch (error) {
        if (!(error instanceof Deno.errors.NotFound)) throw error;
      }
    }
    await removeGroups(words[words.indexOf("-id") + 1]);
  }
}

/**
 * Removes the control groups of a container, or of a namespace, that are left when its shim or containerd
 * came to an early end: as soon as no process is in them, if nobody else does it first.
 */
export async function removeGroups(name: string): Promise<void> {
  for (const place of ["", ...[...Deno.readDirSync(CGROUPS)].map((one) => `/${one.name}`)]) {
    const folder = `${CGROUPS}${place}/${name}`;
    const processes = () => Deno.readTextFile(`${folder}/cgroup.procs`).catch(() => "");
    for (const until = Date.now() + 60_000; await processes() !== "" && Date.now() < until;) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    await Deno.remove(folder).catch(() => {/* it is not there, or holds another's */});
  }
}

/** Where its shims have runc keep what runs, by namespace: nobody else empties this. */
const RUNTIME_ROOTS = "/run/containerd/runc";

/** Those of tests' namespaces that are empty: another containerd's hold what it runs. */
async function removeRuntimeRoots(): Promise<void> {
  const entries = await Array.fromAsync(Deno.readDir(RUNTIME_ROOTS)).catch(() => []);
  for (const { name } of entries) {
    if (!/^svc(-|$)/.test(name)) continue;
    await Deno.remove(join(RUNTIME_ROOTS, name)).catch(() => {/* something runs */});
  }
}
