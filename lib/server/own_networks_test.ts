import assert from "node:assert/strict";
import { refuseOwnNetworks } from "./own_networks.ts";
import type { Route } from "./route.ts";

const row = (method: Route["method"], path: string): Route => ({
  method,
  path,
  action: "any",
  help: "",
  handler: () => new Response(),
});

const refuse = refuseOwnNetworks("10.4", {
  interfaces: () => [
    { name: "svc0", address: "10.4.0.1" },
    { name: "svc255", address: "10.4.255.1" },
    { name: "eth0", address: "10.4.9.1" },
  ],
});
const deploy = row("PUT", "/.svc/v1/deployments/{name}");

Deno.test("what comes out of an own network is refused, pulls are not", () => {
  for (const remote of ["10.4.0.7:4000", "10.4.255.2:1", "[::ffff:10.4.0.7]:4000"]) {
    for (
      const route of [
        deploy,
        row("GET", "/.svc/v1/info"),
        row("POST", "/v2/{name+}/blobs/uploads/"),
        row("DELETE", "/v2/{name+}/manifests/{reference}"),
      ]
    ) {
      assert.throws(() => refuse(route, remote), {
        code: "denied",
        message: /own builds and workloads, which may pull images and nothing else$/,
        help: /SVC_WORKLOAD_API/,
      });
    }
    refuse(row("GET", "/v2/{name+}/manifests/{reference}"), remote);
    refuse(row("HEAD", "/v2/{name+}/blobs/{digest}"), remote);
    refuse(row("GET", "/v2/"), remote);
  }
});

Deno.test("everybody else is not: the host itself, and networks that only have such addresses", () => {
  for (
    const remote of [
      "127.0.0.1:1",
      "[::1]:1",
      "10.4.0.1:1",
      "10.4.9.7:1",
      "10.40.0.7:1",
      "10.4.7.7:1",
    ]
  ) refuse(deploy, remote);
});

Deno.test("what comes out of an own network by IPv6 is refused too; others, and the host itself, are not", () => {
  const six = refuseOwnNetworks("10.4", {
    interfaces: () => [
      { name: "svc1", address: "fd00::1", cidr: "fd00::1/64" },
      { name: "svc1", address: "fe80::1", cidr: "fe80::1/64" },
      { name: "svc-10-5-1", address: "fd01::1", cidr: "fd01::1/64" },
      { name: "eth0", address: "fd02::1", cidr: "fd02::1/64" },
    ],
  });
  assert.throws(() => six(deploy, "[fd00::7]:4000"), { code: "denied" });
  assert.throws(() => six(deploy, "[fd00:0::7]:4000"), { code: "denied" });
  six(row("GET", "/v2/"), "[fd00::7]:4000");
  for (const other of ["fd00::1", "fd00:0:0:1::7", "fd01::7", "fd02::7", "::1", "fe80::7"]) {
    six(deploy, `[${other}]:4000`);
  }
});

Deno.test("what comes out of a network that the engine made for this server is refused; others are not asked for", async () => {
  let asked = 0;
  const list = () => {
    asked++;
    const [subnet, internal, labels] = ["172.18.0.0/16", false, {}];
    return Promise.resolve([
      { name: "default", driver: "bridge", usedBy: [], subnet, internal, labels },
    ]);
  };
  const networks = {
    list,
    inspect: () => Promise.resolve(undefined),
    remove: () => Promise.reject(),
  };
  const engines = refuseOwnNetworks("10.4", {
    interfaces: () => [
      { name: "lo", address: "127.0.0.1", cidr: "127.0.0.1/8" },
      { name: "br-0a1b2c3d4e5f", address: "172.18.0.1", cidr: "172.18.0.1/16" },
      { name: "br-0a1b2c3d4e5f", address: "fd00::1", cidr: "fd00::1/64" },
      { name: "docker0", address: "172.17.0.1", cidr: "172.17.0.1/16" },
      { name: "br0", address: "192.0.2.1", cidr: "192.0.2.1/24" },
    ],
    engines: () => new Set(["br-0a1b2c3d4e5f", "docker0"]),
    backend: () => Promise.resolve({ caps: { networks } }),
  });
  for (const peer of ["172.18.0.2", "[::ffff:172.18.0.2]", "[fd00::2]", "[fe80::2]"]) {
    await assert.rejects(async () => await engines(deploy, `${peer}:4000`), { code: "denied" });
    await engines(row("GET", "/v2/"), `${peer}:4000`);
  }
  await engines(deploy, "172.17.0.2:4000");
  asked = 0;
  for (const peer of ["127.0.0.1", "172.18.0.1", "192.0.2.7", "198.51.100.1"]) {
    await engines(deploy, `${peer}:4000`);
  }
  assert.equal(asked, 0);
});

Deno.test("a bridge without IPv6 brings no link-local peer, and without an engine nobody is asked", async () => {
  const interfaces = () => [
    { name: "br-0a1b2c3d4e5f", address: "172.18.0.1", cidr: "172.18.0.1/16" },
    { name: "eth0", address: "fd02::1", cidr: "fd02::1/64" },
  ];
  const engines = refuseOwnNetworks("10.4", {
    interfaces,
    engines: () => new Set(["br-0a1b2c3d4e5f"]),
    backend: () => assert.fail("the peer is on no bridge of an engine"),
  });
  await engines(deploy, "[fe80::2]:4000");
  await refuseOwnNetworks("10.4", { interfaces })(deploy, "172.18.0.2:4000");
});
