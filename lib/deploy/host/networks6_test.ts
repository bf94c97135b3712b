import assert from "node:assert/strict";
import type { NetworkSpec } from "../../api/deploy_spec.ts";
import { addressOn6, chooseSubnet6 } from "./networks6.ts";

const OWN = "fd01:0:0:3::/64";

async function choose(spec: Partial<NetworkSpec>, there?: string, has = true) {
  const told: string[] = [];
  const subnet6 = await chooseSubnet6({ name: "n", ...spec }, {
    ...{ there, own: OWN, bridge: "svc3" },
    warn: (text) => told.push(text),
    host: {
      hasIPv6: () => Promise.resolve(has),
      routes: () => Promise.resolve("fd09::/64 dev eth0 proto kernel"),
    },
  });
  return { subnet6, told: told.join() };
}

Deno.test("a network has IPv6 where it is asked for, or where it is there already", async () => {
  assert.deepEqual(await choose({}), { subnet6: undefined, told: "" });
  assert.deepEqual(await choose({ enableIPv6: true }), { subnet6: OWN, told: "" });
  assert.deepEqual(await choose({}, "fd02::/64"), { subnet6: "fd02::/64", told: "" });
  assert.equal((await choose({ enableIPv6: false }, "fd02::/64")).subnet6, undefined);
  const without = await choose({ enableIPv6: true }, undefined, false);
  assert.equal(without.subnet6, undefined);
  assert.match(without.told, /^enableIPv6: this host has no IPv6/);
});

Deno.test("an IPv6 subnet that is asked for is given, or told why not", async () => {
  const on = (subnet: string, there?: string) => choose({ enableIPv6: true, subnet }, there);
  assert.deepEqual(await on("fd05:0::7/64"), { subnet6: "fd05::/64", told: "" });
  assert.deepEqual(await on("fd02::/64", "fd02::/64"), { subnet6: "fd02::/64", told: "" });
  assert.match((await on("fd05::/64", "fd02::/64")).told, /is fd02::\/64, .*others are on it/);
  for (
    const [subnet, why] of [["fd09::/48", /a route/], ["fd05::/16", /32 to/], ["fd::x/64", /32/]]
  ) {
    const { subnet6, told } = await on(subnet as string);
    assert.equal(subnet6, OWN);
    assert.match(told, why as RegExp);
  }
  assert.match((await choose({ subnet: "fd05::/64" })).told, /without enableIPv6/);
});

Deno.test("an IPv6 address is one of the subnet's, and nobody else's", () => {
  assert.deepEqual(addressOn6("FD01:0:0:3:0::5", OWN), { ip6: "fd01:0:0:3::5" });
  for (const text of ["fd01:0:0:3::", "fd01:0:0:3::1", "fd02::5", "10.4.0.2"]) {
    assert.match(addressOn6(text, OWN).why!, /no workload's address/, text);
  }
  assert.match(addressOn6("fd01:0:0:3::5").why!, /has no IPv6 there/);
});
