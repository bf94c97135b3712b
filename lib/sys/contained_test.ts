import assert from "node:assert/strict";
import { containerIds, inContainer } from "./contained.ts";
import { parseMountinfo } from "./mountinfo.ts";

const ID = "2e8d42d9d8d687a6fe927e87f08a24e7f83887a5b41838486e2d68c68d0da238";
const OTHER = ID.replaceAll("2", "1");

const mountinfo = (root: string, target: string) =>
  `612 595 254:0 ${root} ${target} rw,relatime - ext4 /dev/vda rw\n`;

Deno.test("a container's id stands in the sources of its files, or in its control group", () => {
  const docker = mountinfo(`/var/lib/docker/containers/${ID}/hostname`, "/etc/hostname");
  const podman = mountinfo(
    `/containers/storage/overlay-containers/${ID}/userdata/hosts`,
    "/etc/hosts",
  );
  const none = mountinfo("/", "/");
  const cases: [table: string, cgroup: string, ids: string[]][] = [
    [docker, "0::/\n", [ID]],
    [podman, "0::/\n", [ID]],
    [none, `4:memory:/docker/${ID}\n0::/docker/${ID}\n`, [ID]],
    [none, `0::/system.slice/docker-${ID}.scope\n`, [ID]],
    [none, `0::/machine.slice/libpod-${ID}.scope/container\n`, [ID]],
    [docker, `0::/docker/${OTHER}/docker/${ID}\n`, [ID, OTHER]],
    // Other containers' files are mounts of the host, at places of their own.
    [mountinfo(`/x/${OTHER}/hostname`, `/x/${OTHER}/hostname`), "0::/user.slice\n", []],
    [mountinfo(`/snap/${ID}x/hosts`, "/etc/hosts"), "0::/\n", []],
  ];
  for (const [table, cgroup, ids] of cases) {
    assert.deepEqual(containerIds(parseMountinfo(table), cgroup), ids, table + cgroup);
  }
});

Deno.test({
  name: "a container is known by the files that engines mount",
  ignore: Deno.build.os !== "linux",
  async fn() {
    const at = (...targets: string[]) => () =>
      Promise.resolve(targets.map((target) => ({ target })));
    assert.equal(await inContainer(at("/", "/etc/hosts")), true);
    assert.equal(await inContainer(at("/", "/etc/resolv.conf", "/proc")), false);
  },
});
