/** Networks with IPv6 on bare and containerd; the steps are in host_ipv6_inside.ts. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { run } from "../../lib/base/process.ts";
import { requireTools } from "../e2e/harness.ts";
import { startNamespace } from "../peers/namespace.ts";

const INSIDE = join(import.meta.dirname!, "host_ipv6_inside.ts");
const CONFIG = join(import.meta.dirname!, "../../deno.json");

/** The interfaces of that network, below the host's control groups. */
const SYSFS = [
  "mkdir /run/cgroup /run/netns",
  "mount --rbind /sys/fs/cgroup /run/cgroup",
  "mount -t sysfs sysfs /sys",
  "mount --rbind /run/cgroup /sys/fs/cgroup",
].join("\n");

for (const [engine, commands] of [["bare", ["conmon"]], ["containerd", ["containerd", "perl"]]]) {
  Deno.test({
    name: `networks with IPv6: ${engine}`,
    ...requireTools({
      root: true,
      commands: ["runc", "iptables", "ip6tables", "busybox", ...commands as string[]],
    }),
    fn: async () => {
      const folder = await Deno.makeTempDir({ prefix: "svc-ipv6-" });
      try {
        await using host = await startNamespace(folder, { setup: SYSFS });
        const deno = [Deno.execPath(), "run", "-A", "-q", "--config", CONFIG, INSIDE];
        const [program, ...args] = host.inside(...deno, engine as string);
        const { code, stdout, stderr } = await run(program, args);
        assert.equal(code, 0, `${stdout}\n${stderr}`);
      } finally {
        await Deno.remove(folder, { recursive: true });
      }
    },
  });
}
