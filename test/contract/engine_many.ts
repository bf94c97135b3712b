/** Many deployments at once on an engine with the Docker Engine API. `SVC_TEST_MANY=200` makes it 200. */
import assert from "node:assert/strict";
import type { DeploySpec } from "../../lib/api/deploy_spec.ts";
import type { RunOutput } from "../e2e/harness.ts";
import { eventually } from "../waits.ts";
import type { DeployBackendUnderTest, OwnTest } from "./deploy_suite.ts";
import { quickSpec, shell, UNDECIDED } from "./deploy_tools.ts";

const MANY = Number(Deno.env.get("SVC_TEST_MANY") ?? 9);

/** `engine`: its own client; throws where it fails. */
export function engineMany(
  test: OwnTest,
  { backend, image }: DeployBackendUnderTest,
  engine: (...args: string[]) => Promise<RunOutput>,
): void {
  const names = Array.from({ length: MANY }, (_, index) => `many-${index}`);
  const spec = (name: string, version: number, more: Record<string, unknown> = {}): DeploySpec =>
    quickSpec(name, image, {
      ...{ ports: ["127.0.0.1:0:8080"], networks: ["many"], volumes: [`${name}:/data`] },
      env: { VERSION: String(version) },
      ...more,
    });
  const lines = async (...args: string[]) =>
    (await engine(...args)).stdout.split("\n").filter(Boolean);
  const containers = () =>
    lines("ps", "-a", "--filter", "label=svc.deployment", "--format", "{{.Names}} {{.Status}}");

  test(`${MANY} deployments at once: each runs once, what fails leaves nothing`, async () => {
    const before = await lines("network", "ls", "-q");
    // An engine may keep it busy for a moment.
    const unused = () =>
      eventually(
        "the network goes with the last one",
        async () => (await lines("network", "ls", "-q")).join() === before.join(),
      );
    try {
      // Every third fails, while others are made.
      const bad = { command: shell("exit 3"), healthcheck: UNDECIDED };
      const fails = (_: string, index: number) => index % 3 === 2;
      const first = await Promise.allSettled(
        names.map((name, at) => backend().apply(spec(name, 1, fails(name, at) ? bad : {}))),
      );
      assert.deepEqual(
        first.map(({ status }) => status),
        names.map((name, at) => fails(name, at) ? "rejected" : "fulfilled"),
      );
      assert.equal((await containers()).length, names.length - names.filter(fails).length);
      assert.ok((await containers()).every((line) => / Up /.test(line)));
      // Twice each: the second one finds what the first one made.
      const later = await Promise.all(
        names.flatMap((name) => [1, 2].map(() => backend().apply(spec(name, 2)))),
      );
      const done = later.map(({ action }) => action);
      assert.equal(done.filter((action) => action === "unchanged").length, names.length);
      const all = await backend().list();
      assert.deepEqual(all.map(({ state }) => state), names.map(() => "running"));
      assert.equal((await containers()).length, names.length);
      const different = (of: unknown[]) => assert.equal(new Set(of).size, names.length);
      different(all.map(({ instances: [{ ip }] }) => ip));
      different(all.map(({ ports: [{ host }] }) => host));
    } finally {
      await Promise.all(names.map((name) => backend().delete(name)));
    }
    assert.deepEqual(await containers(), []);
    assert.deepEqual(await backend().list(), []);
    await unused();
    // Addresses and ports are free again.
    try {
      await backend().apply(spec(names[0], 3));
      assert.equal((await containers()).length, 1);
    } finally {
      await backend().delete(names[0]);
      for (const name of names) await backend().caps.volumes!.remove(name);
    }
    await unused();
  });
}
