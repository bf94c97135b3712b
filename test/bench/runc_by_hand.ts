/** runc with CNI plugins, as a script runs it: a namespace, bridge and portmap, a tree that lies there already. */
import { join } from "node:path";
import { freeSubnetBase, runTool } from "../e2e/harness.ts";
import { type CniConfig, cniDirs, CniPlugins } from "../../lib/runtime/cni.ts";

export class RuncByHand implements AsyncDisposable {
  readonly name = "runc run with CNI";
  readonly #dir: string;
  readonly #plugins = new CniPlugins(cniDirs());
  readonly #base = freeSubnetBase();
  #port = 0;

  private constructor(dir: string) {
    this.#dir = dir;
  }

  static async prepare(): Promise<RuncByHand> {
    const dir = await Deno.makeTempDir({ prefix: "svc-bench-runc-" });
    const rootfs = join(dir, "rootfs");
    for (const name of ["bin", "srv", "proc", "sys", "dev", "tmp"]) {
      await Deno.mkdir(join(rootfs, name), { recursive: true });
    }
    await Deno.copyFile("/bin/busybox", join(rootfs, "bin/busybox"));
    await Deno.writeTextFile(join(rootfs, "srv/index.html"), "hello\n");
    await runTool("runc", ["spec"], { cwd: dir });
    return new RuncByHand(dir);
  }

  #networks(): CniConfig[] {
    const ranges = [[{ subnet: `${this.#base}.9.0/24` }]];
    const ipam = { type: "host-local", dataDir: join(this.#dir, "leases"), ranges };
    return [
      {
        ...{ name: "bench", type: "bridge", bridge: "benchrunc", isGateway: true, ipMasq: true },
        ipam: { ...ipam, routes: [{ dst: "0.0.0.0/0" }] },
      },
      {
        ...{ name: "bench", type: "portmap", snat: true, capabilities: { portMappings: true } },
        runtimeConfig: {
          portMappings: [{ hostPort: this.#port, containerPort: 8080, protocol: "tcp" }],
        },
      },
    ];
  }

  #call(containerId: string) {
    return { containerId, netns: `/run/netns/${containerId}`, ifname: "eth0" };
  }

  async run(id: string, port: number): Promise<void> {
    this.#port = port;
    await runTool("ip", ["netns", "add", id]);
    const [bridge, portmap] = this.#networks();
    const prevResult = await this.#plugins.add({ ...this.#call(id), config: bridge });
    await this.#plugins.add({ ...this.#call(id), config: portmap, prevResult });
    const bundle = join(this.#dir, id);
    await Deno.mkdir(bundle);
    const config = JSON.parse(await Deno.readTextFile(join(this.#dir, "config.json")));
    config.root.path = join(this.#dir, "rootfs");
    Object.assign(config.process, {
      terminal: false,
      args: ["/bin/busybox", "httpd", "-f", "-p", "8080", "-h", "/srv"],
    });
    const network = config.linux.namespaces.find(({ type }: { type: string }) =>
      type === "network"
    );
    network.path = `/run/netns/${id}`;
    await Deno.writeTextFile(join(bundle, "config.json"), JSON.stringify(config));
    const { code } = await new Deno.Command("runc", {
      args: ["run", "-d", "--bundle", bundle, id],
      ...{ stdin: "null", stdout: "null", stderr: "null" },
    }).output();
    if (code !== 0) throw new Error(`runc run exited with ${code}`);
  }

  async remove(id: string): Promise<void> {
    await runTool("runc", ["delete", "--force", id]);
    for (const config of this.#networks().reverse()) {
      await this.#plugins.del({ ...this.#call(id), config });
    }
    await runTool("ip", ["netns", "del", id]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await runTool("ip", ["link", "delete", "benchrunc"]).catch(() => {/* it was never made */});
    await Deno.remove(this.#dir, { recursive: true });
  }
}
