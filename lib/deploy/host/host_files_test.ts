import assert from "node:assert/strict";
import { hostsFile, resolvConf } from "./host_files.ts";

Deno.test("hosts: own name, extra hosts, gateway and peers", () => {
  const text = hostsFile({
    hostname: "web-0",
    ip: "10.4.0.2",
    gateway: "10.4.0.1",
    extra: { db: "10.0.0.9", host: "host-gateway" },
    peers: [{ ip: "10.4.0.3", names: ["api", "alias"] }],
  });
  assert.match(text, /^127\.0\.0\.1\tlocalhost$/m);
  for (
    const line of ["10.4.0.2\tweb-0", "10.0.0.9\tdb", "10.4.0.1\thost", "10.4.0.3\tapi alias"]
  ) assert.ok(text.split("\n").includes(line), line);
});

Deno.test("hosts: a qualified hostname has its short form too", () => {
  const text = hostsFile({ hostname: "web.example.org", ip: "10.4.0.2" });
  assert.match(text, /^10\.4\.0\.2\tweb\.example\.org web$/m);
});

Deno.test("resolv.conf: loopback resolvers stay on the host, given lists replace", () => {
  const host = "nameserver 127.0.0.53\nnameserver 10.0.0.2\nsearch lan\noptions edns0\n";
  assert.equal(resolvConf(host, {}), "nameserver 10.0.0.2\nsearch lan\noptions edns0\n");
  assert.match(resolvConf(host, { hostNetwork: true }), /127\.0\.0\.53/);
  assert.equal(resolvConf(host, { search: ["."] }), "nameserver 10.0.0.2\noptions edns0\n");
  assert.equal(
    resolvConf(host, { servers: ["1.2.3.4"], search: [], options: ["ndots:1"] }),
    "nameserver 1.2.3.4\noptions ndots:1\n",
  );
});

Deno.test("resolv.conf: the network's resolver is asked first, the host's while it is away", () => {
  const host = "nameserver 10.0.0.2\nnameserver 10.0.0.3\nnameserver 10.0.0.4\n";
  const gateway = "10.4.0.1";
  assert.equal(
    resolvConf(host, { gateway }),
    "nameserver 10.4.0.1\nnameserver 10.0.0.2\nnameserver 10.0.0.3\n",
  );
  assert.equal(resolvConf(host, { gateway, internal: true }), "nameserver 10.4.0.1\n");
  assert.equal(resolvConf(host, { gateway, servers: ["1.2.3.4"] }), "nameserver 1.2.3.4\n");
});

Deno.test("hosts: with IPv6 each name has two lines", () => {
  const text = hostsFile({
    ...{ hostname: "web-0", ip: "10.4.0.2", ip6: "fd00::2" },
    peers: [{ ip: "10.4.0.3", ip6: "fd00::3", names: ["db", "db-0"] }],
  });
  assert.match(text, /10\.4\.0\.2\tweb-0\nfd00::2\tweb-0\n/);
  assert.match(text, /10\.4\.0\.3\tdb db-0\nfd00::3\tdb db-0\n$/);
});
