import assert from "node:assert/strict";
import { deployBackendNames, selectDeployBackend } from "./mod.ts";

Deno.test("names and aliases select, near misses are refused with the nearest name", () => {
  assert.equal(selectDeployBackend("k8s").name, "kubernetes");
  assert.equal(selectDeployBackend("bare").name, "bare");
  assert.ok(deployBackendNames().includes("incus"));
  assert.throws(() => selectDeployBackend("dockerhsot"), {
    code: "config_invalid",
    message: /did you mean dockerhost\?/,
  });
});

Deno.test("a backend that is not in this build says so and names bare", async () => {
  const docker = selectDeployBackend("dockerhost");
  assert.equal(docker.inBuild, false);
  assert.throws(() => docker.load(), {
    code: "not_in_build",
    message: /Docker Engine/,
    help: /SVC_DEPLOY_BACKEND=bare/,
  });
  const bare = selectDeployBackend("bare");
  assert.equal(bare.inBuild, true);
  assert.equal(typeof (await bare.load()).open, "function");
});
