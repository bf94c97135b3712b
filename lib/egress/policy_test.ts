import assert from "node:assert/strict";
import fc from "fast-check";
import { EGRESS_ROUTES, type EgressRoute } from "../api/egress.ts";
import { parseEgressPattern } from "../api/egress_pattern.ts";
import { gatewayPolicy } from "./gateway.ts";
import { egressHost, egressPolicy } from "./policy.ts";
import { addressesFor } from "./reach.ts";

const { signal } = new AbortController();

Deno.test("patterns are read, and what is none is refused with a reason", () => {
  assert.deepEqual(parseEgressPattern("*"), {});
  assert.deepEqual(parseEgressPattern(":443"), { port: 443 });
  assert.deepEqual(parseEgressPattern("*.Example.com:80"), { host: "*.example.com", port: 80 });
  assert.deepEqual(parseEgressPattern("10.0.0.0/8").range, {
    ...{ address: "10.0.0.0", bits: 8, family: "ipv4" },
  });
  assert.deepEqual(parseEgressPattern("[2001:db8::/32]:443"), {
    ...{ range: { address: "2001:db8::", bits: 32, family: "ipv6" }, port: 443 },
  });
  for (
    const [text, why] of [
      ["", /empty/],
      ["10.0.0/8", /no range/],
      ["10.0.0", /no address/],
      ["10.0.0.0/33", /no range/],
      ["a b", /neither/],
      ["x:0", /no port/],
      ["x:70000", /no port/],
      ["a:1:2", /brackets/],
      ["fe80::1%eth0", /brackets|range/],
    ] as const
  ) assert.throws(() => parseEgressPattern(text), why, text);
});

Deno.test("the first rule that matches decides; without one the default; without that cluster", () => {
  const { decide } = egressPolicy({
    rules: [
      { pattern: "*.corp.example", route: "client" },
      { pattern: "10.0.0.0/8", route: "gateway" },
      { pattern: ":25", route: "deny" },
    ],
    default: "cluster",
  });
  const of = (host: string, port = 443, address?: string) => decide({ host, port, address });
  assert.equal(of("db.corp.example"), "client");
  assert.equal(of("db.corp.example", 25), "client");
  assert.equal(of("corp.example"), "cluster");
  assert.equal(of("10.1.2.3"), "gateway");
  assert.equal(of("db.example", 443, "10.1.2.3"), "gateway");
  assert.equal(of("db.example", 25), "deny");
  assert.equal(egressPolicy({}).decide({ host: "x", port: 1 }), "cluster");
  // A name is no address, however it looks; an address is matched by no name but "*".
  const tens = egressPolicy({ rules: [{ pattern: "10.*", route: "deny" }] });
  assert.equal(tens.decide({ host: "10.0.0.1", port: 1 }), "cluster");
  const all = egressPolicy({ rules: [{ pattern: "*", route: "deny" }] });
  for (const host of ["10.0.0.1", "::1", "x"]) assert.equal(all.decide({ host, port: 1 }), "deny");
});

Deno.test("one host has one way of writing it", () => {
  for (const text of ["127.0.0.1", "127.1", "0x7f.1", "2130706433", "[::ffff:127.0.0.1]"]) {
    assert.equal(egressHost(text), "127.0.0.1", text);
  }
  assert.equal(egressHost("Example.COM."), "example.com");
  assert.equal(egressHost("2001:DB8:0::1"), "2001:db8::1");
  for (const text of ["", "a b", "fe80::1%eth0", "1.2.3.4.5", "999.1.1.1", "a/b"]) {
    assert.equal(egressHost(text), undefined, text);
  }
});

Deno.test("a name's addresses are decided too: a range that denies holds for names", async () => {
  const policy = egressPolicy({
    rules: [{ pattern: "10.0.0.0/8", route: "deny" }],
    default: "cluster",
  });
  const lookup = () => Promise.resolve(["10.1.1.1", "192.0.2.7"]);
  const options = { policy, route: "cluster", who: "the test", lookup, signal } as const;
  assert.deepEqual(await addressesFor({ host: "x.example", port: 1 }, options), ["192.0.2.7"]);
  const inside = { ...options, lookup: () => Promise.resolve(["10.1.1.1"]) };
  await assert.rejects(addressesFor({ host: "x.example", port: 1 }, inside), { code: "denied" });
  const mapped = { ...options, lookup: () => Promise.resolve(["::ffff:10.1.1.1"]) };
  await assert.rejects(addressesFor({ host: "x.example", port: 1 }, mapped), { code: "denied" });
  await assert.rejects(addressesFor({ host: "10.1.1.1", port: 1 }, options), { code: "denied" });
  await assert.rejects(
    addressesFor({ host: "x.example", port: 1 }, { ...options, route: "client" }),
    {
      code: "denied",
    },
  );
});

Deno.test("a gateway dials what its policy names, and inner addresses by a range alone", () => {
  const own = (address: string) => address === "192.0.2.1";
  const policy = gatewayPolicy(["!*.secret.example", "*.example", "10.0.0.0/8", "*:443"], own);
  const may = (host: string, address: string, port = 80) => policy.permits({ host, address, port });
  assert.ok(may("www.example", "192.0.2.9"));
  assert.ok(!may("a.secret.example", "192.0.2.9", 443));
  assert.ok(!may("www.example", "127.0.0.1"), "a name that leads to the server itself");
  assert.ok(!may("www.example", "169.254.169.254"));
  assert.ok(!may("www.example", "192.0.2.1"));
  assert.ok(may("10.0.0.1", "10.0.0.1"));
  assert.ok(may("other.test", "192.0.2.9", 443));
  assert.ok(!may("other.test", "192.0.2.9"));
  assert.ok(!gatewayPolicy([], own).permits({ host: "x", address: "192.0.2.9", port: 1 }));
  assert.throws(() => gatewayPolicy(["10.0.0/8"], own), { code: "config_invalid" });
});

/** Random policies of three places about the same few hosts, so that they often meet and often differ. */
const pattern = fc.constantFrom(
  ...["*", "*.a", "b.a", "c", ":80", "b.a:80", "10.0.0.0/8", "10.1.0.0/16:443", "192.0.2.0/24"],
);
const route = fc.constantFrom<EgressRoute>(...EGRESS_ROUTES);
const policies = fc.record({
  rules: fc.array(fc.record({ pattern, route }), { maxLength: 5 }),
  default: route,
});
const targets = fc.record({
  host: fc.constantFrom("b.a", "x.a", "c", "d", "10.1.2.3", "192.0.2.1"),
  port: fc.constantFrom(80, 443),
});

Deno.test("a workload never gets more than each of the three places allows", async () => {
  const addresses = fc.subarray(["10.1.2.3", "10.2.0.1", "192.0.2.1"], { minLength: 1 });
  await fc.assert(
    fc.asyncProperty(
      policies,
      policies,
      policies,
      targets,
      addresses,
      async (a, b, c, target, found) => {
        const [companion, server, caller] = [a, b, c].map(egressPolicy);
        const taken = companion.decide(target);
        // What is dialled at the end: the companion hands the target to the dialler of its route.
        const lookup = () => Promise.resolve(found);
        const dialled: string[][] = [];
        try {
          if (taken !== "deny") {
            const places = taken === "client" ? [server, caller] : [server];
            for (const policy of places) {
              const options = { policy, route: taken, who: "a place", lookup, signal };
              dialled.push(await addressesFor(target, options));
            }
          }
        } catch {
          return;
        }
        for (
          const policy of taken === "client" ? [companion, server, caller] : [companion, server]
        ) {
          if (dialled.length > 0) assert.equal(policy.decide(target), taken);
        }
        const last = dialled.at(-1) ?? [];
        const decider = taken === "client" ? caller : server;
        for (const address of last) assert.equal(decider.decide({ ...target, address }), taken);
        assert.ok(taken !== "deny" || last.length === 0);
      },
    ),
  );
});
