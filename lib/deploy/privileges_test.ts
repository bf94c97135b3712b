import assert from "node:assert/strict";
import { validateDeploySpec } from "../api/deploy_spec_parse.ts";
import { PRIVILEGED_KINDS, type PrivilegedKind, requirePermitted } from "./privileges.ts";

const spec = (more: Record<string, unknown>) =>
  validateDeploySpec({ name: "web", image: "app", ...more });

/** Each kind in its variants: what can amount to root. */
const ASKED: [PrivilegedKind, Record<string, unknown>][] = [
  ["privileged", { privileged: true }],
  ["pidMode", { pidMode: "host" }],
  ["pidMode", { pidMode: "container:other" }],
  ["ipcMode", { ipcMode: "host" }],
  ["networks", { networks: ["host"] }],
  ["networks", { networks: [{ name: "lan", driver: "macvlan" }] }],
  ["networks", {
    networks: [{ name: "lan", driverOpts: { "com.docker.network.bridge.name": "br0" } }],
  }],
  ["networks", { networks: [{ name: "out", subnet: "1.1.1.0/24" }] }],
  ["networks", { networks: [{ name: "wide", subnet: "10.0.0.0/7" }] }],
  ["networks", { networks: [{ name: "wide", subnet: "172.16.0.0/11" }] }],
  ["networks", { networks: [{ name: "all", subnet: "0.0.0.0/0" }] }],
  ["networks", { networks: [{ name: "six", subnet: "2001:db8::/64" }] }],
  ["networks", { networks: [{ name: "mapped", subnet: "::ffff:10.0.0.0/104" }] }],
  ["devices", { devices: ["/dev/sda"] }],
  ["capAdd", { capAdd: ["SYS_ADMIN"] }],
  ["capAdd", { capAdd: ["cap_net_admin"] }],
  ["capAdd", { capAdd: ["ALL"] }],
  ["securityOpt", { securityOpt: ["seccomp=unconfined"] }],
  ["securityOpt", { securityOpt: ["apparmor:unconfined"] }],
  ["securityOpt", { securityOpt: ["label=disable"] }],
  ["securityOpt", { securityOpt: ["systempaths=unconfined"] }],
  ["securityOpt", { securityOpt: ["no-new-privileges=false"] }],
  ["sysctls", { sysctls: { "kernel.core_pattern": "|/x" } }],
  ["sysctls", { sysctls: { "vm.overcommit_memory": "1" } }],
  ["volumes", { volumes: [{ name: "v", target: "/v", driverOpts: { o: "bind", device: "/" } }] }],
  ["volumes", {
    volumes: [{
      name: "v",
      target: "/v",
      driverOpts: { type: "tmpfs", o: "size=1m,bind", device: "/" },
    }],
  }],
  ["volumes", {
    volumes: [{ name: "v", target: "/v", driverOpts: { type: "tmpfs", device: "/etc" } }],
  }],
  ["volumes", { volumes: [{ name: "v", target: "/v", driver: "plugin" }] }],
  ["labels", { labels: { "traefik.enable": "true" } }],
  ["labels", { labels: { "Traefik.HTTP.routers.x.rule": "Host(`a.test`)" } }],
  ["labels", { labels: { "com.docker.compose.project": "theirs" } }],
  ["labels", { labels: { "com.centurylinklabs.watchtower.lifecycle.pre-update": "sh" } }],
  ["labels", { labels: { "io.containers.autoupdate": "registry" } }],
  ["labels", { labels: { caddy_0: "a.test" } }],
  ["labels", { networks: [{ name: "n", labels: { "com.docker.compose.network": "n" } }] }],
  ["labels", { volumes: [{ name: "v", target: "/v", labels: { "ofelia.enabled": "true" } }] }],
];

Deno.test("what can amount to root is refused by kind, and permitted by kind", () => {
  for (const [kind, fields] of ASKED) {
    const words = JSON.stringify(fields);
    assert.throws(() => requirePermitted(spec(fields), []), (error: SvcErrorLike) => {
      assert.equal(error.code, "denied", words);
      assert.deepEqual(error.detail, { kinds: [kind] }, words);
      assert.match(error.help, new RegExp(`SVC_ALLOW_PRIVILEGED=${kind} `), words);
      return true;
    });
    requirePermitted(spec(fields), [kind]);
    const others = PRIVILEGED_KINDS.filter((other) => other !== kind);
    assert.throws(() => requirePermitted(spec(fields), others), { code: "denied" }, words);
  }
});

interface SvcErrorLike {
  code: string;
  help: string;
  detail: unknown;
}

Deno.test("every kind that is asked for is named at once", () => {
  const all = { privileged: true, pidMode: "host", capAdd: ["SYS_TIME"] };
  assert.throws(() => requirePermitted(spec(all), ["capAdd"]), {
    message: "Cannot deploy web: this server does not permit privileged (true), pidMode (host), " +
      "which can amount to root on its host",
    help: /SVC_ALLOW_PRIVILEGED=capAdd,privileged,pidMode /,
  });
});

Deno.test("the values that amount to root are named: of another driver's volume its options too", () => {
  const volume = { name: "v", target: "/v", driver: "plugin", driverOpts: { share: "//nas/x" } };
  assert.throws(() => requirePermitted(spec({ volumes: [volume] }), []), {
    message: /does not permit volumes \(plugin, share=\/\/nas\/x\), which/,
  });
});

Deno.test("what a container may anyway is permitted", () => {
  const usual = [
    { privileged: false, pidMode: "", ipcMode: "private", networks: ["front", "none"].slice(0, 1) },
    { networks: [{ name: "front", driver: "bridge", internal: true }] },
    { networks: ["none"] },
    { networks: [{ name: "front", driverOpts: {}, subnet: "10.123.45.0/24" }] },
    { networks: [{ name: "a", subnet: "172.31.0.0/16" }, { name: "b", subnet: "fd00:1::/64" }] },
    ...["10.0.0.0/8", "10.250.0.0/16", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"]
      .map((subnet) => ({ networks: [{ name: "private", subnet }] })),
    { volumes: [{ name: "v", target: "/v", driver: "local" }] },
    { volumes: [{ name: "v", target: "/v", driver: "default" }] },
    { volumes: [{ name: "v", target: "/v", driverOpts: { type: "tmpfs", device: "tmpfs" } }] },
    { capAdd: ["NET_BIND_SERVICE", "chown"], capDrop: ["ALL"] },
    { securityOpt: ["no-new-privileges", "no-new-privileges:true"] },
    { sysctls: { "net.core.somaxconn": "77", "kernel.shmmax": "1", "fs.mqueue.msg_max": "9" } },
    { volumes: [{ name: "v", target: "/v", driverOpts: { type: "tmpfs", o: "size=1m" } }] },
    { labels: { "org.opencontainers.image.title": "a", tier: "front", "my.traefik.name": "b" } },
    { groupAdd: ["0"], user: "0", tmpfs: ["/x:exec"], ulimits: { nofile: 9 } },
  ];
  for (const fields of usual) requirePermitted(spec(fields), []);
});

Deno.test("namespaced sysctls are the host's in the host's namespaces", () => {
  const net = { networks: ["host"], sysctls: { "net.ipv4.ip_forward": "1" } };
  assert.throws(() => requirePermitted(spec(net), ["networks"]), /sysctls/);
  const ipc = { ipcMode: "host", sysctls: { "kernel.shmmax": "1" } };
  assert.throws(() => requirePermitted(spec(ipc), ["ipcMode"]), /sysctls/);
});
