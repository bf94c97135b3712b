/** The peer of the builds and deploys: podman with a configuration and storage of its own. */
import { join } from "node:path";
import { runTool } from "../e2e/harness.ts";
import { removeServerData } from "../peers/cleanup.ts";
import { silently } from "./measure.ts";

export interface Podman extends AsyncDisposable {
  run(args: string[]): Promise<void>;
  /** The same, with what it printed. */
  read(args: string[]): Promise<string>;
}

/** Works without CAP_SYS_RESOURCE and on hosts with both cgroup versions, where the defaults do not. */
function configuration(dir: string): string {
  return `[containers]
default_ulimits = ["nofile=20000:20000", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[network]
network_backend = "cni"
cni_plugin_dirs = ["/usr/lib/cni", "/opt/cni/bin"]
network_config_dir = "${dir}/cni"
`;
}

export async function startPodman(): Promise<Podman> {
  const dir = await Deno.makeTempDir({ prefix: "svc-bench-podman-" });
  const conf = join(dir, "containers.conf");
  await Deno.writeTextFile(conf, configuration(dir));
  await Deno.mkdir(join(dir, "cni"));
  const env = { CONTAINERS_CONF: conf };
  const place = ["--root", join(dir, "root"), "--runroot", join(dir, "run")];
  return {
    run: (args) => silently("podman", [...place, ...args], env),
    read: async (args) => (await runTool("podman", [...place, ...args], { env })).stdout,
    [Symbol.asyncDispose]: async () => {
      await silently("podman", [...place, "rm", "-af", "-t", "0"], env);
      await removeServerData(dir);
    },
  };
}
