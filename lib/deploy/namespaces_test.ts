import assert from "node:assert/strict";
import type { DeploySpec } from "../api/deploy_spec.ts";
import { WorkloadNamespaces } from "./namespaces.ts";

const spec = { name: "web" } as DeploySpec;

const web = (key: string) => ({
  ...{ deployment: "web", spec, instance: "web-0", key, path: `/netns/${key}` },
});

/** Says what entered and what left. */
function recorded() {
  const told: string[] = [];
  const enter = ({ key }: { key: string }) => {
    told.push(`in ${key}`);
    return {
      [Symbol.asyncDispose]: () => {
        told.push(`out ${key}`);
        return Promise.resolve();
      },
    };
  };
  return { told, enter };
}

Deno.test("namespaces that are open and those to come are entered once, and left at their end", async () => {
  const namespaces = new WorkloadNamespaces((_, error) => assert.fail(error as Error));
  const { told, enter } = recorded();
  const all = recorded();
  namespaces.attendAll(all.enter);
  await namespaces.opened(web("a"));
  await namespaces.opened({ ...web("x"), deployment: "other" });
  const attended = namespaces.attend("web", enter);
  await namespaces.opened(web("a"));
  await namespaces.opened(web("b"));
  assert.deepEqual(told, ["in a", "in b"]);
  await namespaces.closed("a");
  await namespaces.closed("a");
  assert.deepEqual(told, ["in a", "in b", "out a"]);
  await attended[Symbol.asyncDispose]();
  await namespaces.opened(web("c"));
  assert.deepEqual(told, ["in a", "in b", "out a", "out b"]);
  assert.deepEqual(all.told, ["in a", "in x", "in b", "out a", "in c"]);
});

Deno.test("what cannot run fails the start; of an instance that runs already it is told", async () => {
  const failures: string[] = [];
  const namespaces = new WorkloadNamespaces((namespace, error) =>
    failures.push(`${namespace.key}: ${(error as Error).message}`)
  );
  await namespaces.opened(web("a"));
  namespaces.attend("web", () => Promise.reject(new Error("no port")));
  await assert.rejects(namespaces.opened(web("b")), /no port/);
  assert.deepEqual(failures, ["a: no port"]);
  await namespaces.closed("b");
});
