import assert from "node:assert/strict";
import { foreignRoute, overlap, parseRoutes, parseSubnet } from "./subnets.ts";

Deno.test("subnets: texts are read, others are refused", () => {
  assert.deepEqual(parseSubnet("10.4.3.7/24"), { first: 0x0a040300, bits: 24 });
  assert.deepEqual(parseSubnet("255.255.255.255"), { first: 0xffffffff, bits: 32 });
  assert.deepEqual(parseSubnet("0.0.0.0/0"), { first: 0, bits: 0 });
  for (const text of ["default", "10.4.0/24", "10.4.0.256", "10.4.0.0/33", "::1/64", ""]) {
    assert.equal(parseSubnet(text), undefined, text);
  }
});

Deno.test("subnets: two overlap where one holds the other", () => {
  const overlaps = (a: string, b: string) => overlap(parseSubnet(a)!, parseSubnet(b)!);
  assert.ok(overlaps("10.4.0.0/24", "10.4.0.0/16") && overlaps("10.4.0.0/16", "10.4.0.0/24"));
  assert.ok(overlaps("10.4.0.0/24", "10.4.0.255"));
  assert.ok(!overlaps("10.4.0.0/24", "10.4.1.0/24") && !overlaps("10.4.1.0/24", "10.4.0.255"));
});

Deno.test("subnets: a route to another device is in the way, a default route and the own bridge are not", () => {
  const routes = parseRoutes(
    [
      "default via 192.0.2.1 dev eth0 ",
      "0.0.0.0/1 via 10.8.0.1 dev tun0",
      "10.4.0.0/24 dev svc0 proto kernel scope link src 10.4.0.1 linkdown ",
      "local 10.4.0.1 dev svc0 table local proto kernel scope host src 10.4.0.1 ",
      "10.5.0.0/16 via 192.0.2.9 dev eth0",
      "local 10.6.0.9 dev eth1 table local proto kernel scope host src 10.6.0.9",
      "unreachable 10.7.0.0/20 metric 9",
      "",
    ].join("\n"),
  );
  const inTheWay = (subnet: string, bridge: string) =>
    foreignRoute(routes, { subnet, bridge })?.text;
  assert.equal(inTheWay("10.4.0.0/24", "svc0"), undefined);
  assert.match(inTheWay("10.4.0.0/24", "svc-10-4-0")!, /dev svc0/);
  assert.match(inTheWay("10.5.255.0/24", "b")!, /^10\.5\.0\.0\/16/);
  assert.match(inTheWay("10.6.0.0/24", "b")!, /^local 10\.6\.0\.9/);
  assert.match(inTheWay("10.7.15.0/24", "b")!, /^unreachable/);
  assert.equal(inTheWay("10.7.16.0/24", "b"), undefined);
});
