import assert from "node:assert/strict";
import { validateDeploySpec } from "../../../../lib/api/deploy_spec_parse.ts";
import { SvcError } from "../../../../lib/base/errors.ts";
import type { Binds } from "./binds.ts";
import { Deployment, type DeploymentParts } from "./deployment.ts";
import type { Inspected } from "./inspect.ts";
import { type Plan, Replacer, type ReplacerParts } from "./replace.ts";

/** Starts the first instance of a deployment, on an engine that has chosen `taken` ports in vain before. */
async function started(ports: string[], taken: number) {
  const spec = validateDeploySpec({ name: "web", image: "i", ports });
  const calls: string[] = [];
  const running = { State: { Status: "running", Running: true }, NetworkSettings: {} } as Inspected;
  const watch = { state: () => running, look: () => Promise.resolve(running), onTrial() {} };
  const containers = {
    create() {
      calls.push("create");
      return Promise.resolve(`c${calls.length}`);
    },
    begin(container: string) {
      calls.push(`begin ${container}`);
      if (taken-- <= 0) return Promise.resolve();
      return Promise.reject(new SvcError("port_in_use", "bind: address already in use"));
    },
    remove(container: string) {
      calls.push(`remove ${container}`);
      return Promise.resolve();
    },
    supervise: () => Promise.resolve(),
  };
  const parts = {
    engine: { containers, watch } as unknown as ReplacerParts["engine"],
    binds: { recheck: () => Promise.resolve() } as unknown as Binds,
  };
  const records = { save: () => Promise.resolve(), write: () => Promise.resolve() };
  const deployment = Deployment.fresh({ watch, records } as unknown as DeploymentParts, spec);
  const made = [{ container: "", key: "web-0", replica: 0, hash: "h" }];
  const plan = { spec, hash: "h", image: { name: "i", digest: "" }, attached: [], sources: [] };
  const error = await new Replacer(parts).replace(
    deployment,
    { made, old: [] },
    plan as unknown as Plan,
    { onProgress() {}, until: "started" },
  ).then(() => undefined, (error: unknown) => error as SvcError);
  return { calls, error, instances: deployment.record.instances.map((one) => one.container) };
}

Deno.test("a host port that was taken between its choice and its use is chosen anew", async () => {
  const { calls, error, instances } = await started(["80"], 1);
  assert.equal(error, undefined);
  assert.deepEqual(calls, ["create", "begin c1", "remove c1", "create", "begin c4"]);
  assert.deepEqual(instances, ["c4"]);
});

Deno.test("a host port that the spec names is not chosen anew, and others not for ever", async () => {
  const named = await started(["8080:80"], 1);
  assert.equal(named.error?.code, "port_in_use");
  assert.deepEqual(named.calls, ["create", "begin c1", "remove c1"]);
  const never = await started(["80"], 1000);
  assert.equal(never.error?.code, "port_in_use");
  assert.equal(never.calls.filter((call) => call === "create").length, 5);
  assert.ok(never.calls.at(-1)!.startsWith("remove"));
});
