import assert from "node:assert/strict";
import { BARE_FIELDS } from "../../backends/deploy/bare/fields.ts";
import type { DeployBackend } from "../../lib/deploy/backend.ts";
import { lacking, type Need } from "./deploy_suite.ts";

/** Files of the contract, and those of this folder that they import. */
async function portable(): Promise<string[]> {
  const all = await Array.fromAsync(Deno.readDir(new URL(".", import.meta.url)));
  return all.map(({ name }) => name).filter((name) =>
    name.startsWith("deploy_") && !name.endsWith("_test.ts")
  );
}

Deno.test("deploy contract: it knows nothing of the host that a backend runs on", async () => {
  const files = await portable();
  assert.ok(files.includes("deploy_backend.ts") && files.includes("deploy_events.ts"));
  for (const file of files) {
    const text = await Deno.readTextFile(new URL(file, import.meta.url));
    const ofHost =
      /\bpid\b|\/proc\/|\/sys\/|lib\/(sys|runtime|snapshot)\/|deploy\/host\/|node:(?!assert)/;
    assert.doesNotMatch(text, ofHost, file);
    // A page of the repository, which it deploys, and the test itself.
    for (const [, name] of text.matchAll(/\bDeno\.(\w+)/g)) {
      assert.match(name, /^(test|TestStepDefinition|readTextFile)$/, file);
    }
    for (const [, name] of text.matchAll(/from "\.\/(\w+\.ts)"/g)) {
      assert.ok(files.includes(name), `${file} imports ${name}`);
    }
  }
});

Deno.test("deploy contract: a test is left out for a reason that is given, and for no other", () => {
  const fields = {
    ...BARE_FIELDS,
    restart: { told: "the engine always starts again" },
  };
  const of = (need: Need, caps: DeployBackend["caps"], lacks: Record<string, string> = {}) =>
    lacking(need, { name: "fake", caps } as DeployBackend, { fields, lacks });
  const exec = () => Promise.reject(new Error("not asked"));
  assert.equal(of("exec", { exec }), undefined);
  assert.equal(of("exec", {}, { exec: "no shells" }), "no exec: no shells");
  assert.throws(() => of("exec", {}), /exec is not there: say why/);
  assert.throws(() => of("exec", { exec }, { exec: "no shells" }), /the reason .* has to go/);
  assert.equal(of("spec.restart", {}), "spec.restart: the engine always starts again");
  assert.equal(of("spec.env", {}), undefined);
  assert.throws(() => of("spec.nothing", {}), /is not a field/);
});
