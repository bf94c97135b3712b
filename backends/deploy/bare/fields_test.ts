import assert from "node:assert/strict";
import { validateDeploySpec } from "../../../lib/api/deploy_spec_parse.ts";
import { fieldWarnings } from "../../../lib/deploy/fields.ts";
import { BARE_FIELDS } from "./fields.ts";

const warnings = (more: Record<string, unknown>) =>
  fieldWarnings(validateDeploySpec({ name: "web", image: "app", ...more }), BARE_FIELDS);

Deno.test("values that are not done are named", () => {
  const named: [Record<string, unknown>, string][] = [
    [
      { networks: ["a", { name: "b", driver: "ipvlan" }] },
      "networks[1].driver: ipvlan is not honoured by the bare backend",
    ],
    [
      { networks: [{ name: "b", attachable: false }] },
      "networks[0].attachable: any deployment of this server may name the network",
    ],
    [
      { securityOpt: ["no-new-privileges", "label=disable"] },
      "securityOpt[1]: label=disable is not honoured by the bare backend",
    ],
    [
      { restart: "always", restartMaxAttempts: 3 },
      "restartMaxAttempts: restart: always does not count attempts",
    ],
    [
      { networks: [{ name: "host", aliases: ["db"] }] },
      "networks[0].aliases[0]: nobody is asked for db on network host",
    ],
    [{ ports: ["80"], networks: ["host"] }, "ports: not published on network host"],
    [{ ipcMode: "host", shmSize: "1Mi" }, "shmSize: with ipcMode: host it is the host's /dev/shm"],
  ];
  for (const [more, warning] of named) assert.deepEqual(warnings(more), [warning]);
  const done = {
    networks: [{ name: "b", driver: "", attachable: true, labels: {} }],
    volumes: [{ name: "v", target: "/v", driver: "local", labels: { a: "b" } }],
    securityOpt: ["no-new-privileges:true"],
    restart: "on-failure:3",
    ports: ["80"],
    replicas: 3,
    updateConfig: { parallelism: 1, order: "stop-first" },
    pidMode: "private",
    labels: { a: "b" },
  };
  assert.deepEqual(warnings(done), []);
  assert.deepEqual(warnings({}), []);
});

Deno.test("ingress is honoured, but for what is a cluster's and for TLS", () => {
  assert.deepEqual(warnings({ ingress: { hosts: ["a.test"], port: 80 } }), []);
  const more = { className: "nginx", annotations: { a: "b" }, tls: true };
  assert.deepEqual(
    warnings({ replicas: 2, ingress: { hosts: ["a.test"], port: 80, ...more } })
      .map((line) => line.slice(0, line.indexOf(":"))),
    ["ingress.className", "ingress.annotations", "ingress.tls"],
  );
  assert.deepEqual(warnings({ ingress: { hosts: ["a.test"], tls: false } }), []);
});
