import assert from "node:assert/strict";
import { join } from "node:path";
import { cniDirs, CniPlugins } from "./cni.ts";
import { bridgeNetwork } from "./network.ts";

/** A plugin made of a shell script, in a folder of its own. */
async function withPlugin(script: string, work: (dir: string) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir();
  try {
    await Deno.writeTextFile(join(dir, "fake"), `#!/bin/sh\n${script}`, { mode: 0o755 });
    await work(dir);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

const call = {
  containerId: "c1",
  netns: "/ns",
  ifname: "eth0",
  config: { type: "fake", name: "n" },
};

Deno.test("a plugin gets its variables and configuration, and gives a result", () =>
  withPlugin(
    `cat > "$(dirname "$0")/stdin"
echo "$CNI_COMMAND $CNI_CONTAINERID $CNI_NETNS $CNI_IFNAME" > "$(dirname "$0")/env"
[ "$CNI_COMMAND" = ADD ] && echo '{"ips":[{"address":"10.0.0.2/24"}]}'
exit 0`,
    async (dir) => {
      const plugins = new CniPlugins([dir]);
      const result = await plugins.add(call);
      assert.equal(result.ips?.[0].address, "10.0.0.2/24");
      assert.equal(await Deno.readTextFile(join(dir, "env")), "ADD c1 /ns eth0\n");
      await plugins.del({ ...call, prevResult: result });
      const sent = JSON.parse(await Deno.readTextFile(join(dir, "stdin")));
      assert.equal(sent.cniVersion, "1.0.0");
      assert.equal(sent.prevResult.cniVersion, "1.0.0");
    },
  ));

Deno.test("an older plugin is spoken to in its version; other errors carry its words", async () => {
  await withPlugin(
    `if grep -q '"1.0.0"'; then echo '{"code":1,"msg":"incompatible CNI versions"}'; exit 1; fi
echo '{"ips":[]}'`,
    async (dir) => {
      assert.deepEqual(await new CniPlugins([dir]).add(call), { ips: [] });
    },
  );
  await withPlugin(
    `cat > /dev/null; echo '{"code":11,"msg":"no address","details":"the range is full"}'; exit 1`,
    (dir) =>
      assert.rejects(new CniPlugins([dir]).add(call), {
        message: /fake failed on ADD: no address: the range is full/,
      }),
  );
  await withPlugin(
    `cat > /dev/null; echo broken >&2; exit 3`,
    (dir) => assert.rejects(new CniPlugins([dir]).del(call), { message: /on DEL: broken/ }),
  );
});

Deno.test("a missing plugin names its package; the default folder means the usual ones", async () => {
  await assert.rejects(new CniPlugins(["/nonexistent"]).find("bridge"), {
    code: "prerequisite_missing",
    help: /containernetworking-plugins/,
  });
  assert.ok(cniDirs("/opt/cni/bin").includes("/usr/lib/cni"));
  assert.deepEqual(cniDirs("/a:/b"), ["/a", "/b"]);
});

Deno.test("networks: subnets by index, bridge names that fit an interface", () => {
  assert.deepEqual(bridgeNetwork("10.4", 3), {
    name: "svc3",
    bridge: "svc3",
    subnet: "10.4.3.0/24",
  });
  const other = bridgeNetwork("172.255", 255);
  assert.equal(other.subnet, "172.255.255.0/24");
  assert.ok(other.bridge.length <= 15);
});
