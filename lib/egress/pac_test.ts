import assert from "node:assert/strict";
import fc from "fast-check";
import { EGRESS_ROUTES, type EgressRoute } from "../api/egress.ts";
import { closeIdleWorkers } from "../base/worker_pool.ts";
import { loadEgressPolicy } from "./load.ts";
import { routeOfAnswer } from "./pac.ts";
import { egressPolicy, type EgressTarget } from "./policy.ts";
import { addressesFor, requireRoute } from "./reach.ts";

const { signal } = new AbortController();

const load = (script: string) => loadEgressPolicy({ mode: "proxy", script });

const at = (host: string, port = 443, address?: string): EgressTarget => ({ host, port, address });

function pacTest(name: string, run: () => Promise<void>): void {
  Deno.test(name, async () => {
    try {
      await run();
    } finally {
      closeIdleWorkers();
    }
  });
}

Deno.test("answers of a script are routes, and what is none of them denies", () => {
  for (
    const [answer, route] of [
      ["DIRECT", "cluster"],
      ["direct; PROXY client", "cluster"],
      ["PROXY client", "client"],
      ["PROXY gateway", "gateway"],
      ["PROXY cluster", "cluster"],
      ["PROXY proxy.corp.example:3128; DIRECT", "client"],
      ["SOCKS5 10.0.0.1:1080", "client"],
      ["SOCKS gateway", "client"],
      ["DENY", "deny"],
      ["BLOCK", "deny"],
      ["PROXY deny", "deny"],
      ["PROXY", "deny"],
      ["DIRECT x", "deny"],
      ["PROXY a b", "deny"],
      ["", "deny"],
      ["; DIRECT", "deny"],
      ["anything", "deny"],
    ] as const
  ) assert.equal(routeOfAnswer(answer), route, answer);
});

pacTest(
  "a script decides by host, port and address, with the functions of such scripts",
  async () => {
    const policy = await load(`
    function FindProxyForURL(url, host) {
      if (isPlainHostName(host)) return "DENY";
      if (dnsDomainIs(host, ".corp.example") || localHostOrDomainIs(host, "www.corp.example")) {
        return "PROXY client";
      }
      if (isInNet(dnsResolve(host), "10.0.0.0", "255.0.0.0")) return "BLOCK";
      if (shExpMatch(url, "https://*.gate.example/*")) return "PROXY gateway";
      if (url.indexOf(":8443/") > 0 && dnsDomainLevels(host) === 1) return "PROXY p.example:80";
      return "DIRECT";
    }`);
    const decide = (target: EgressTarget) => policy.decide(target);
    assert.ok(policy.asksAddress);
    assert.equal(await decide(at("plain")), "deny");
    assert.equal(await decide(at("db.corp.example")), "client");
    assert.equal(await decide(at("10.1.2.3")), "deny");
    assert.equal(await decide(at("x.gate.example")), "gateway");
    assert.equal(await decide(at("x.gate.example", 80)), "cluster");
    assert.equal(await decide(at("some.example", 8443)), "client");
    // Before the name is resolved nothing speaks against it; its address does.
    assert.equal(await decide(at("else.example")), "cluster");
    assert.equal(await decide(at("else.example", 443, "10.0.0.9")), "deny");
  },
);

pacTest("what fails, or asks for what is not there, denies", async () => {
  for (
    const body of [
      "throw new Error('no')",
      "return undefined",
      "return 5",
      "return {}",
      "return unknown(host)",
      // no clock, no randomness, no network, no host's own objects
      "return weekdayRange('MON', 'SUN') ? 'DIRECT' : 'DIRECT'",
      "return new Date() && 'DIRECT'",
      "return Math.random() < 2 && 'DIRECT'",
      "fetch('http://x/'); return 'DIRECT'",
      "Deno.exit(0); return 'DIRECT'",
      "postMessage({ type: 'done', answer: 'DIRECT' }); return 'DENY'",
      "return import('node:fs') && 'DIRECT' && nothing",
      // without end, without bound
      "for (;;);",
      "return FindProxyForURL(url, host)",
      "return 'x'.repeat(1 << 29) && 'DIRECT'",
      "return /(a+)+$/.test('a'.repeat(64) + 'b') ? 'DIRECT' : 'DIRECT'",
    ]
  ) {
    const policy = await load(`function FindProxyForURL(url, host) { ${body} }`);
    assert.equal(await policy.decide(at("a.example")), "deny", body);
  }
});

pacTest(
  "nothing stays from one decision to the next: the same question, the same answer",
  async () => {
    const script = `
    var asked = 0;
    function FindProxyForURL(url, host) {
      asked++;
      this.seen = this.seen || host;
      return asked === 1 && this.seen === host ? "PROXY client" : "DIRECT";
    }`;
    const places = await Promise.all([load(script), load(script)]);
    for (const host of ["a.example", "b.example", "a.example"]) {
      for (const policy of places) assert.equal(await policy.decide(at(host)), "client");
    }
  },
);

pacTest("a script that thrashes in its memory meets its deadline, and others go on", async () => {
  const thrashing = await load(
    "function FindProxyForURL() { var a = []; for (;;) a.push('x'.repeat(1e5) + a.length); }",
  );
  const other = await load("function FindProxyForURL() { return 'DIRECT'; }");
  const hosts = ["a.example", "b.example", "c.example", "d.example", "e.example"];
  const began = performance.now();
  const denied = Promise.all(hosts.map((host) => thrashing.decide(at(host))));
  assert.equal(await other.decide(at("a.example")), "cluster");
  assert.deepEqual(await denied, hosts.map(() => "deny"));
  assert.ok(performance.now() - began < 60_000);
});

pacTest("many decisions of one script are no queue for those of another", async () => {
  const script = "function FindProxyForURL(url, host) { return 'DIRECT' }";
  const [busy, other] = await Promise.all([1, 2].map(() => load(script)));
  let decided = 0;
  const all = Promise.all(Array.from({ length: 20 }, async (_, index) => {
    await busy.decide(at(`${index}.example`));
    decided++;
  }));
  await other.decide(at("a.example"));
  assert.ok(decided < 5, `${decided} were decided first`);
  await all;
});

pacTest("what is no such script is refused before anything is deployed", async () => {
  for (
    const [egress, why] of [
      [{ script: "function {" }, /egress\.script: /],
      [{ script: "throw new Error('x'.repeat(1e6))" }, /egress\.script: x{1,300}$/],
      [{ script: "var x = 1;" }, /no function FindProxyForURL/],
      [{ script: "x".repeat((1 << 20) + 1) }, /longer than/],
      [{ script: "function FindProxyForURL() {}", default: "deny" }, /decides alone/],
      [{ rules: [{ pattern: "10.0.0/8", route: "deny" }] }, /egress\.rules: /],
    ] as const
  ) {
    await assert.rejects(loadEgressPolicy(egress as Parameters<typeof loadEgressPolicy>[0]), {
      code: "spec_invalid",
      message: why,
    });
  }
});

/** A script that does what random rules do, and rules for the same. */
const globs = ["*", "*.a", "b.a", "c"] as const;
const route = fc.constantFrom<EgressRoute>(...EGRESS_ROUTES);
const rules = fc.array(fc.record({ pattern: fc.constantFrom(...globs), route }), { maxLength: 3 });
const ANSWERS = {
  client: "PROXY client",
  gateway: "PROXY gateway",
  cluster: "DIRECT",
  deny: "DENY",
};

const scriptOf = (list: readonly { pattern: string; route: EgressRoute }[], last: EgressRoute) =>
  `function FindProxyForURL(url, host) {
    if (isInNet(dnsResolve(host), "10.0.0.0", "255.0.0.0")) return "DENY";
    ${
    list.map(({ pattern, route }) =>
      `if (shExpMatch(host, "${pattern}")) return "${ANSWERS[route]}";`
    ).join("\n")
  }
    return "${ANSWERS[last]}";
  }`;

pacTest(
  "a workload never gets more than each of three places allows, by scripts or rules",
  async () => {
    const place = fc.record({ list: rules, last: route, byScript: fc.boolean() });
    const hosts = fc.constantFrom("b.a", "x.a", "c", "d");
    const found = fc.subarray(["10.1.2.3", "192.0.2.1"], { minLength: 1 });
    const load = (
      { list, last, byScript }: {
        list: { pattern: string; route: EgressRoute }[];
        last: EgressRoute;
        byScript: boolean;
      },
    ) =>
      loadEgressPolicy(
        byScript ? { script: scriptOf(list, last) } : {
          rules: [{ pattern: "10.0.0.0/8", route: "deny" as const }, ...list],
          default: last,
        },
      );
    await fc.assert(
      fc.asyncProperty(
        fc.tuple(place, place, place),
        hosts,
        found,
        async (given, host, addresses) => {
          const policies = await Promise.all(given.map(load));
          const target = at(host);
          const taken = await policies[0].decide(target);
          const asked = policies.slice(0, taken === "client" ? 3 : 2);
          const lookup = () => Promise.resolve(addresses);
          let dialled: string[] = [];
          try {
            for (const policy of asked) await requireRoute(policy, target, taken, "a place");
            const [policy] = asked.slice(-1);
            dialled = await addressesFor(target, {
              policy,
              route: taken,
              who: "it",
              lookup,
              signal,
            });
          } catch {
            return;
          }
          assert.notEqual(taken, "deny");
          for (const policy of asked) assert.equal(await policy.decide(target), taken);
          assert.ok(!dialled.includes("10.1.2.3"));
          // What the scripts say is what rules of the same meaning say.
          const rules = given.map(({ list, last }) => egressPolicy({ rules: list, default: last }));
          for (const [index] of asked.entries()) assert.equal(rules[index].decide(target), taken);
        },
      ),
      { numRuns: 40 },
    );
  },
);
