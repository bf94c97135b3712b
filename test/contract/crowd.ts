/** Many deployments at once, by every engine. `SVC_TEST_CROWD=100` makes it 100. */
import assert from "node:assert/strict";
import type { DeploySpec } from "../../lib/api/deploy_spec.ts";
import { eventually } from "../waits.ts";
import type { DeployBackendUnderTest, OwnTest } from "./deploy_suite.ts";
import { quickSpec, shell, UNDECIDED } from "./deploy_tools.ts";

export const CROWD = Number(Deno.env.get("SVC_TEST_CROWD") ?? 20);

/** What the engine has of svc's. */
export interface Made extends Record<string, string[]> {
  containers: string[];
}

/** By the client of an engine with the Docker Engine API. */
export async function madeBy(engine: (...args: string[]) => Promise<{ stdout: string }>) {
  const lines = async (...args: string[]) =>
    (await engine(...args, "-q")).stdout.split("\n").filter(Boolean);
  return {
    containers: await lines("ps", "-a", "--filter", "label=svc.deployment"),
    networks: await lines("network", "ls", "--filter", "label=svc.server"),
    volumes: await lines("volume", "ls"),
  };
}

export function deployCrowd(
  test: OwnTest,
  { backend, image }: Pick<DeployBackendUnderTest, "backend" | "image">,
  made: () => Promise<Made>,
): void {
  const crowd = Array.from({ length: CROWD }, (_, index) => `crowd-${index}`);
  const spec = (name: string, version: number, more: Record<string, unknown> = {}): DeploySpec =>
    quickSpec(name, image, {
      ...{ ports: ["127.0.0.1:0:8080"], networks: ["crowd"], volumes: [`${name}:/data`] },
      env: { VERSION: String(version) },
      ...more,
    });
  // Some fail, while others are made.
  const fails = (_: string, index: number) => index % 6 === 5;
  const bad = { command: shell("exit 3"), healthcheck: UNDECIDED };
  const answers = (port: number) =>
    fetch(`http://127.0.0.1:${port}/`, { headers: { connection: "close" } }).then(
      async (answer) => await answer.text() === "hello from busybox\n",
      () => false,
    );

  test(`${CROWD} deployments at once: each runs once, and nothing is left when they go at once`, async () => {
    const before = await made();
    const count = async () => (await made()).containers.length - before.containers.length;
    // An engine may keep a network or an address busy for a moment.
    const asBefore = (what: string) =>
      eventually(what, async () => JSON.stringify(await made()) === JSON.stringify(before));
    const forget = async (names: string[]) => {
      for (const name of names) await backend().caps.volumes!.remove(name);
    };
    const ports: number[] = [];
    try {
      const first = await Promise.allSettled(
        crowd.map((name, at) => backend().apply(spec(name, 1, fails(name, at) ? bad : {}))),
      );
      const told = (message: string) => /exited with code 3/.exec(message)?.[0] ?? message;
      assert.deepEqual(
        first.map((one) => one.status === "rejected" ? told(one.reason.message) : one.value.action),
        crowd.map((name, at) => fails(name, at) ? "exited with code 3" : "created"),
      );
      const failed = crowd.filter(fails);
      assert.equal(await count(), CROWD - failed.length, "what fails leaves nothing");
      // Twice each: the second one finds what the first one made.
      const twice = [...failed, crowd[0], crowd[1]];
      const later = await Promise.all(
        twice.flatMap((name) => [1, 2].map(() => backend().apply(spec(name, 2)))),
      );
      assert.equal(later.filter(({ action }) => action === "unchanged").length, twice.length);
      const all = (await backend().list()).filter(({ name }) => crowd.includes(name));
      assert.deepEqual(all.map(({ state }) => state), crowd.map(() => "running"));
      assert.equal(await count(), CROWD);
      ports.push(...all.map(({ ports: [{ host }] }) => host));
      const different = (of: unknown[]) => assert.equal(new Set(of).size, CROWD);
      different(ports);
      different(all.map(({ instances: [{ ip }] }) => ip));
      for (const port of [ports[0], ports.at(-1)!]) {
        await eventually("an answer", () => answers(port));
      }
    } finally {
      await Promise.all(crowd.map((name) => backend().delete(name)));
    }
    assert.deepEqual(await backend().list(), []);
    await forget(crowd);
    await asBefore("nothing is left");
    try {
      // All ports are free again.
      const all = ports.map((port) => `127.0.0.1:${port}:8080`);
      await backend().apply(spec(crowd[0], 3, { ports: all }));
      await eventually("an answer", () => answers(ports.at(-1)!));
    } finally {
      await backend().delete(crowd[0]);
    }
    await forget([crowd[0]]);
    await asBefore("nothing is left of the last one");
  });
}
