import assert from "node:assert/strict";
import { validateDeploySpec } from "../../../lib/api/deploy_spec_parse.ts";
import { bareWarnings } from "./unhonoured.ts";

const warnings = (more: Record<string, unknown>) =>
  bareWarnings(validateDeploySpec({ name: "web", image: "app", ...more }));

Deno.test("parallelism warns where it would have made a difference", () => {
  const of = (replicas: number, parallelism: number) =>
    warnings({ replicas, updateConfig: { parallelism } });
  assert.deepEqual(of(3, 1), [
    "updateConfig.parallelism: the bare backend replaces all 3 replicas at once",
  ]);
  for (const [replicas, parallelism] of [[1, 1], [3, 3], [3, 0]]) {
    assert.deepEqual(of(replicas, parallelism), []);
  }
});

Deno.test("a plain spec has no warnings; what is not honoured is named", () => {
  assert.deepEqual(warnings({}), []);
  assert.deepEqual(warnings({ updateConfig: { order: "stop-first" } }), [
    "updateConfig.order: stop-first is not honoured by the bare backend",
  ]);
});

Deno.test("ingress is honoured, but for what is a cluster's and for TLS", () => {
  assert.deepEqual(warnings({ ingress: { hosts: ["a.test"], port: 80 } }), []);
  const more = { className: "nginx", annotations: { a: "b" }, tls: true };
  assert.deepEqual(
    warnings({ replicas: 2, ingress: { hosts: ["a.test"], port: 80, ...more } })
      .map((line) => line.slice(0, line.indexOf(":"))),
    ["ingress.className", "ingress.annotations", "ingress.tls", "ingress"],
  );
  assert.deepEqual(warnings({ ingress: { hosts: ["a.test"], tls: false } }), []);
});
