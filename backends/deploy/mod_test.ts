import assert from "node:assert/strict";
import { loadServerSettings } from "../../lib/config/server_options.ts";
import { DEPLOY_BACKENDS, DEPLOY_TABLES, deployBackendNames, selectDeployBackend } from "./mod.ts";

function select(name?: string) {
  const env = { SVC_DEPLOY_BACKEND: name };
  return selectDeployBackend(loadServerSettings([], env, DEPLOY_TABLES).settings);
}

Deno.test("names and aliases select, near misses are refused with the nearest name", () => {
  assert.equal(select("k8s").name, "kubernetes");
  assert.equal(select("bare").name, "bare");
  assert.ok(deployBackendNames().includes("incus"));
  assert.throws(() => select("dockerhsot"), {
    code: "config_invalid",
    message: /did you mean dockerhost\?/,
  });
});

Deno.test("the default is a backend that nobody chose", () => {
  assert.deepEqual([select().name, select().chosen], ["dockerhost", false]);
  assert.equal(select("bare").chosen, true);
});

Deno.test("a backend that is not in this build says so and names bare", async () => {
  const cluster = select("k8s");
  assert.equal(cluster.inBuild, false);
  assert.throws(() => cluster.load(), {
    code: "not_in_build",
    message: /Kubernetes/,
    help: /SVC_DEPLOY_BACKEND=bare/,
  });
  const bare = select("bare");
  assert.equal(bare.inBuild, true);
  assert.equal(typeof (await bare.load()).open, "function");
});

Deno.test("every backend of this build says what it does with the fields of a spec", async () => {
  for (const [name, { load, fields }] of Object.entries(DEPLOY_BACKENDS)) {
    assert.equal(fields !== undefined, load !== undefined, name);
    if (fields) assert.equal((await fields()).name, "honoured", name);
  }
});
