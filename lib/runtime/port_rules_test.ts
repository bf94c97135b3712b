import assert from "node:assert/strict";
import { portChanges, portRules } from "./port_rules.ts";

const web = (hostIP: string, ...ips: string[]) => ({
  hostIP,
  hostPort: 80,
  protocol: "tcp" as const,
  targets: ips.map((ip) => ({ ip, port: 8080 })),
});

Deno.test("port rules: connections go round the targets, each of which has its turn", () => {
  assert.deepEqual(portRules("C", [web("0.0.0.0", "10.0.0.2", "10.0.0.3", "10.0.0.4")]), [
    "-A C -p tcp --dport 80 -m statistic --mode nth --every 3 --packet 0 -j DNAT --to-destination 10.0.0.2:8080",
    "-A C -p tcp --dport 80 -m statistic --mode nth --every 2 --packet 0 -j DNAT --to-destination 10.0.0.3:8080",
    "-A C -p tcp --dport 80 -j DNAT --to-destination 10.0.0.4:8080",
  ]);
  assert.deepEqual(portRules("C", [web("127.0.0.1", "10.0.0.2"), web("fd00::9", "10.0.0.2")]), [
    "-A C -d 127.0.0.1 -p tcp --dport 80 -j DNAT --to-destination 10.0.0.2:8080",
  ]);
});

Deno.test("port rules: every address is of both families, those with an IPv6 address are led to by it", () => {
  const target = (ip6?: string) => ({ ip: "10.0.0.2", ip6, port: 8080 });
  const on = (hostIP: string) => ({ ...web(hostIP), targets: [target("fd00::2"), target()] });
  assert.equal(portRules("C", [on("::")]).length, 2);
  const rule = "-p tcp --dport 80 -j DNAT --to-destination [fd00::2]:8080";
  assert.deepEqual(portRules("C", [on("::")], 6), [`-A C ${rule}`]);
  assert.deepEqual(portRules("C", [on("fd00::9")], 6), [`-A C -d fd00::9 ${rule}`]);
  for (const hostIP of ["::1", "0.0.0.0", "127.0.0.1"]) {
    assert.deepEqual(portRules("C", [on(hostIP)], 6), [], hostIP);
  }
  assert.match(portChanges([], "C", ["x"], 6), /^-A OUTPUT ! -d ::1 -m addrtype/m);
});

Deno.test("port rules: the chain is made once, written whole, and goes with its last rule", () => {
  const jump = (hook: string) => `-A ${hook} -m addrtype --dst-type LOCAL -j C`;
  assert.equal(
    portChanges([":PREROUTING ACCEPT [0:0]", jump("OUTPUT")], "C", ["-A C x"]),
    ["*nat", ":C - [0:0]", "-A C x", jump("PREROUTING"), "COMMIT", ""].join("\n"),
  );
  assert.equal(portChanges([":CC - [0:0]"], "C", []), "");
  assert.equal(
    portChanges([":C - [0:0]", jump("OUTPUT"), "-A C x"], "C", []),
    ["*nat", jump("OUTPUT").replace("-A", "-D"), "-F C", "-X C", "COMMIT", ""].join("\n"),
  );
});
