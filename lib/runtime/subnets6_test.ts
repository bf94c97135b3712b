import assert from "node:assert/strict";
import fc from "fast-check";
import { formatAddress6, parseAddress6 } from "../base/address6.ts";
import {
  foreignRoute6,
  formatSubnet6,
  gateway6Of,
  inSubnet6,
  ownSubnet6,
  parseSubnet6,
} from "./subnets6.ts";

Deno.test("IPv6 addresses are read, and written in their shortest form", () => {
  assert.equal(parseAddress6("::"), 0n);
  assert.equal(parseAddress6("fd00::1:2"), 0xfd000000000000000000000000010002n);
  assert.equal(parseAddress6("::ffff:10.0.0.1"), 0xffff0a000001n);
  for (const text of ["", "fe80::1%eth0", "10.0.0.1", "fd00::/64", "1:2"]) {
    assert.equal(parseAddress6(text), undefined, text);
  }
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: 2n ** 128n - 1n }), (address) => {
      assert.equal(parseAddress6(formatAddress6(address)), address);
    }),
  );
});

Deno.test("IPv6 subnets: the prefix counts, the host's address is the first", () => {
  assert.equal(formatSubnet6(parseSubnet6("FD00:0:0:1::7/64")!), "fd00:0:0:1::/64");
  assert.equal(parseSubnet6("fd00::/129"), undefined);
  assert.equal(parseSubnet6("10.4.0.0/24"), undefined);
  assert.equal(gateway6Of("fd00:0:0:1::/64"), "fd00:0:0:1::1");
  const subnet = parseSubnet6("fd00::/64")!;
  assert.ok(inSubnet6(subnet, parseAddress6("fd00::ffff:1")!));
  assert.ok(!inSubnet6(subnet, parseAddress6("fd00:0:0:1::1")!));
});

Deno.test("each network has a /64 of its own among the unique local ones", () => {
  const all = [0, 1, 254].map((index) => ownSubnet6("10.4", index));
  assert.equal(new Set([...all, ownSubnet6("10.5", 1)]).size, 4);
  for (const one of all) assert.match(one, /^fd.*::\/64$/);
  assert.ok(inSubnet6(parseSubnet6(all[1])!, parseAddress6(gateway6Of(all[1]))!));
});

Deno.test("an IPv6 route to another device is in the way; default routes and the own bridge are not", () => {
  const routes = `default via fe80::1 dev eth0 metric 1024
2000::/3 via fe80::1 dev tun0
fd00:1::/64 dev svc1 proto kernel metric 256
fd00:2::/48 via fe80::9 dev eth0
local fd00:3::5 dev eth1 table local proto kernel
unreachable fd00:4::/32 dev lo
multicast ff00::/8 dev eth0 table local
`;
  const found = (subnet6: string, bridge: string) => foreignRoute6(routes, { subnet6, bridge });
  assert.equal(found("fd00:1::/64", "svc1"), undefined);
  assert.match(found("fd00:1::/64", "svc2")!, /dev svc1/);
  assert.match(found("fd00:2:0:7::/64", "b")!, /dev eth0/);
  assert.match(found("fd00:3::/64", "b")!, /^local fd00:3::5/);
  assert.match(found("fd00:4:1::/64", "b")!, /^unreachable/);
  assert.equal(found("2001:db8::/64", "b"), undefined);
  assert.equal(found("fd00:5::/64", "b"), undefined);
});
