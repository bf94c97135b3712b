import assert from "node:assert/strict";
import { missingRules, presentRules, staleRules } from "./bridge_rules.ts";
import { bridgeNetwork } from "./network.ts";
import { forwardingFiltered, parseTables } from "./rule_tables.ts";

const network = bridgeNetwork("10.4", 1);

Deno.test("what is missing is added once; another network's rules are not taken for it", () => {
  const all = missingRules(new Map(), network);
  assert.equal(
    all,
    `*nat
-A POSTROUTING -m comment --comment svc:svc1:out -s 10.4.1.0/24 ! -o svc1 ! -d 224.0.0.0/4 -j MASQUERADE
-A POSTROUTING -m comment --comment svc:svc1:loopback -s 127.0.0.0/8 -d 10.4.1.0/24 -j MASQUERADE
-A POSTROUTING -m comment --comment svc:svc1:hairpin -s 10.4.1.0/24 -d 10.4.1.0/24 -m conntrack --ctstate DNAT -j MASQUERADE
COMMIT
*raw
-A PREROUTING -m comment --comment svc:svc1:guard -i svc1 -d 127.0.0.0/8 -j DROP
COMMIT
*mangle
-A PREROUTING -m comment --comment svc:svc1:source -i svc1 ! -s 10.4.1.0/24 -j DROP
-A FORWARD -m comment --comment svc:svc1:unpublished ! -i svc1 -o svc1 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP
COMMIT
`,
  );
  const saved = parseTables(all);
  assert.equal(missingRules(saved, network), "");
  const lines = (text: string) => text.split("\n").sort();
  assert.deepEqual(
    lines(missingRules(saved, bridgeNetwork("10.4", 11))),
    lines(all.replaceAll("svc1", "svc11").replaceAll(".4.1.", ".4.11.")),
  );
  saved.set("raw", []);
  assert.match(missingRules(saved, network), /^\*raw\n.*guard.*\nCOMMIT\n$/);
});

Deno.test("an internal network is not led out, and the host is let in only; its resolver is asked", () => {
  const options = { resolver: true };
  const internal = missingRules(new Map(), { ...network, internal: true }, options);
  assert.doesNotMatch(internal, /svc1:out /);
  assert.match(internal, /^-A FORWARD .*svc1:out-of -i svc1 ! -o svc1 -j DROP$/m);
  assert.match(internal, /^-A FORWARD .*svc1:into ! -i svc1 -o svc1 -j DROP$/m);
  assert.match(
    internal,
    /^-A INPUT .*svc1:host -i svc1 .*! --ctstate RELATED,ESTABLISHED -j DROP$/m,
  );
  assert.match(
    internal,
    /^-I INPUT .*host-dns-udp -i svc1 -d 10.4.1.1 -p udp --dport 53 -j ACCEPT$/m,
  );
});

Deno.test("a network that becomes internal loses its way out, one that ceases to be gets it back", () => {
  const open = parseTables(missingRules(new Map(), network));
  assert.match(
    staleRules(open, { ...network, internal: true }),
    /^\*nat\n-D .*svc1:out .*\nCOMMIT\n\*mangle\n-D .*svc1:unpublished .*\nCOMMIT\n$/,
  );
  assert.equal(staleRules(open, network), "");
  const internal = parseTables(missingRules(new Map(), { ...network, internal: true }));
  assert.match(staleRules(internal, network), /^\*mangle\n(-D .*\n){3}COMMIT\n$/);
});

Deno.test("networks of builds: nobody on them reaches another", () => {
  const apart = missingRules(new Map(), { ...network, apart: true });
  assert.match(apart, /^-A FORWARD .*svc1:among -i svc1 -o svc1 -j DROP$/m);
});

Deno.test("a resolver on the bridge is let in before what the firewall drops", () => {
  const all = missingRules(new Map(), network, { resolver: true });
  assert.ok(all.endsWith(`*filter
-I INPUT -m comment --comment svc:svc1:dns-udp -i svc1 -d 10.4.1.1 -p udp --dport 53 -j ACCEPT
-I INPUT -m comment --comment svc:svc1:dns-tcp -i svc1 -d 10.4.1.1 -p tcp --dport 53 -j ACCEPT
COMMIT
`));
  const saved = parseTables(all.replaceAll("-I ", "-A "));
  assert.equal(missingRules(saved, network, { resolver: true }), "");
  assert.match(presentRules(saved, network), /^-D INPUT .*dns-tcp/m);
});

Deno.test("removal takes exactly the network's own rules", () => {
  const tables = parseTables(`# a comment
*nat
:POSTROUTING ACCEPT [0:0]
-A POSTROUTING -s 10.4.1.0/24 ! -o svc1 -m comment --comment "svc:svc1:out" -j MASQUERADE
-A POSTROUTING -s 10.4.11.0/24 ! -o svc11 -m comment --comment svc:svc11:out -j MASQUERADE
COMMIT
`);
  assert.equal(
    presentRules(tables, network),
    `*nat
-D POSTROUTING -s 10.4.1.0/24 ! -o svc1 -m comment --comment "svc:svc1:out" -j MASQUERADE
COMMIT
`,
  );
  assert.equal(presentRules(tables, bridgeNetwork("10.4", 2)), "");
});

Deno.test("filtered: a policy or a rule of FORWARD in the filter table", () => {
  const filtered = (lines: string) => forwardingFiltered(parseTables(lines));
  assert.equal(filtered("*filter\n:FORWARD DROP [0:0]\n"), true);
  assert.equal(filtered("*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -j REJECT\n"), true);
  assert.equal(filtered("*filter\n:INPUT DROP [0:0]\n:FORWARD ACCEPT [0:0]\n"), false);
  assert.equal(filtered("*mangle\n:FORWARD DROP [0:0]\n"), false);
});

Deno.test("where forwarding is filtered, a network's own traffic is let through first", () => {
  const tables = parseTables("*filter\n:FORWARD DROP [0:0]\n");
  assert.match(
    missingRules(tables, network),
    /^-I FORWARD .*svc1:through -i svc1 -j ACCEPT\n-I FORWARD .*svc1:back -o svc1 .*DNAT -j ACCEPT$/m,
  );
  assert.doesNotMatch(missingRules(new Map(), network), /through/);
});

Deno.test("IPv6: networks are as far apart, neighbours are found, and routers are not taken", () => {
  const six = { ...network, subnet6: "fd00:0:0:1::/64" };
  const rules = (more: Partial<typeof six & { internal: boolean; walled: boolean }> = {}) =>
    missingRules(new Map(), { ...six, ...more }, { resolver: true, family: 6 });
  assert.equal(missingRules(new Map(), network, { family: 6 }), "", "a network without IPv6");
  const open = rules();
  assert.match(open, /^-A PREROUTING .*svc1:source -i svc1 ! -s fd00:0:0:1::\/64 -j DROP$/m);
  assert.match(open, /^-A FORWARD .*svc1:unpublished ! -i svc1 -o svc1 .*,DNAT -j DROP$/m);
  assert.match(open, /^-A POSTROUTING .*svc1:out -s fd00:0:0:1::\/64 ! -o svc1 -j MASQUERADE$/m);
  assert.deepEqual([...open.matchAll(/icmpv6-type (\d+)/g)].map(([, type]) => type), [
    "135",
    "136",
  ]);
  assert.doesNotMatch(open, /127\.0\.0|10\.4\.|dport 53/);
  const internal = rules({ internal: true });
  assert.doesNotMatch(internal, /svc1:out /);
  assert.match(internal, /^-A FORWARD .*svc1:out-of -i svc1 ! -o svc1 -j DROP$/m);
  assert.match(internal, /^-I INPUT .*svc1:host-near-135 .* -j ACCEPT$/m);
  assert.match(internal, /^-A INPUT .*svc1:host -i svc1 .*-j DROP$/m);
  assert.match(
    staleRules(parseTables(internal.replaceAll("-I ", "-A ")), six, { family: 6 }),
    /-D INPUT .*host-near/,
  );
});

Deno.test("networks of other engines are reached by published ports alone; rules about bridges that are gone go", () => {
  const beyond = ["docker+", "br-0a1b2c3d4e5f"];
  for (const family of [4, 6] as const) {
    const six = { ...network, subnet6: "fd00:0:0:1::/64" };
    const all = missingRules(new Map(), six, { family, beyond });
    for (const to of beyond) {
      assert.ok(all.includes(
        `-A FORWARD -m comment --comment svc:svc1:beyond-${to} -i svc1 -o ${to} ` +
          "-m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP\n",
      ));
    }
    const saved = parseTables(all);
    assert.equal(missingRules(saved, six, { family, beyond }), "");
    assert.equal(staleRules(saved, six, { family, beyond }), "");
    assert.match(
      staleRules(saved, six, { family, beyond: ["docker+"] }),
      /^\*mangle\n-D .*beyond-br-0a1b2c3d4e5f .*\nCOMMIT\n$/,
    );
  }
});
