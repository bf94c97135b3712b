import assert from "node:assert/strict";
import { engineBridges } from "./engine_bridges.ts";
import { ownAddresses } from "./own_addresses.ts";

const link = (name: string) => ({ name, address: "172.18.0.1", cidr: "172.18.0.1/16" });

Deno.test("own addresses: of bridges of engines their networks, of other links the address alone", () => {
  for (
    const name of [
      ...["svc0", "svc255", "svc-10-5-1", "svc0a1b2c3d4e5f", "docker0", "docker_gwbridge"],
      ...["br-0a1b2c3d4e5f", "podman1", "cni-podman0", "nerdctl0", "incusbr0", "lxdbr0"],
    ]
  ) assert.deepEqual(ownAddresses(() => [link(name)]), ["172.18.0.1/16"], name);
  for (const name of ["lo", "eth0", "br0", "br-lan", "virbr0", "svcs0", "enp1s0"]) {
    assert.deepEqual(ownAddresses(() => [link(name)]), ["172.18.0.1"], name);
  }
});

Deno.test("engine bridges: those to come, too, but where another interface begins like them", () => {
  const all = ["docker+", "br-+", "nerdctl+", "podman+", "cni-podman+", "lxdbr+", "incusbr+"];
  assert.deepEqual(engineBridges(["lo", "eth0", "docker0", "br-0a1b2c3d4e5f", "br0"]), all);
  assert.deepEqual(
    engineBridges(["br-lan", "br-0a1b2c3d4e5f", "br-0a1b2c3d4e5f", "svc0a1b2c3d4e5f", "svc255"]),
    all.with(1, "br-0a1b2c3d4e5f").concat("svc0a1b2c3d4e5f"),
  );
});
