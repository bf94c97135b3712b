import assert from "node:assert/strict";
import type { Link } from "../sys/links.ts";
import { bridgePatterns, engineBridges } from "./engine_bridges.ts";
import { ownAddresses } from "./own_addresses.ts";

const BRIDGES = ["docker0", "br-0a1b2c3d4e5f", "svc0a1b2c3d4e5f", "podman1", "incusbr0", "mine"];

/** Bridges with these ports by kind; "" is a device. */
const hostOf = (bridges: Record<string, string[]>, waysOut = ["eth0"]) => {
  const links: Link[] = [{ index: 1, name: "lo" }, { index: 2, name: "eth0" }];
  for (const [name, ports] of Object.entries(bridges)) {
    const master = links.length + 1;
    links.push({ index: master, name, kind: "bridge" });
    for (const kind of ports) {
      const index = links.length + 1;
      links.push({ index, name: `port${index}`, master, ...kind && { kind } });
    }
  }
  return { links, waysOut };
};

Deno.test("engine bridges: those that lead to nothing but this host, by whatever name", () => {
  const host = hostOf({
    ...Object.fromEntries(BRIDGES.map((name) => [name, ["veth"]])),
    ...{ empty: [], machines: ["tun", "veth"] },
    ...{ lan: ["", "veth"], bonded: ["bond"], tagged: ["vlan"], far: ["vxlan"], out: ["veth"] },
    ...{ svc0: ["veth"], "svc-10-5-1": ["veth"] },
  }, ["out"]);
  assert.deepEqual([...engineBridges(host)], [...BRIDGES, "empty", "machines"]);
  assert.deepEqual([...engineBridges(hostOf({ "br-0a1b2c3d4e5f": [""] }))], ["br-0a1b2c3d4e5f"]);
});

Deno.test("engine bridges: those to come, too, but where another interface begins like them", () => {
  const all = ["docker+", "br-+", "nerdctl+", "podman+", "cni-podman+", "lxdbr+", "incusbr+"];
  assert.deepEqual(
    bridgePatterns(hostOf({ docker0: [], "br-0a1b2c3d4e5f": [], mine: [], br0: [""] })),
    [...all, "mine"],
  );
  assert.deepEqual(
    bridgePatterns(hostOf({ "br-lan": [""], "br-mine": [], svc0a1b2c3d4e5f: [], svc255: [] })),
    [...all.filter((name) => name !== "br-+"), "br-mine", "svc0a1b2c3d4e5f"],
  );
});

Deno.test("own addresses: of bridges of engines their networks, of other links the address alone", () => {
  const link = (name: string) => ({ name, address: "172.18.0.1", cidr: "172.18.0.1/16" });
  const engines = new Set(["mine", "docker0"]);
  for (const name of ["svc0", "svc255", "svc-10-5-1", "mine", "docker0"]) {
    assert.deepEqual(ownAddresses([link(name)], engines), ["172.18.0.1/16"], name);
  }
  for (const name of ["lo", "eth0", "br0", "svcs0"]) {
    assert.deepEqual(ownAddresses([link(name)], engines), ["172.18.0.1"], name);
  }
});
