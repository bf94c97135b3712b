/** Faults around an engine with an API, as those around a host's engine are in host_faults.ts. */
import assert from "node:assert/strict";
import type { CrashUnderTest } from "./crash_deploy.ts";
import { type Made, madeBy } from "./crowd.ts";
import type { DeployBackendUnderTest, OwnTest } from "./deploy_suite.ts";
import { quickSpec, runs } from "./deploy_tools.ts";

export interface FaultyEngine {
  /** The path of the socket by which the server reaches it. */
  socket: string;
  /** What there is of svc's. */
  made(): Promise<Made>;
  /**
   * Takes every image from it that it lets go of, though a container was made of it; gives their number. Absent: that
   * is not tried.
   */
  forget?(): Promise<number>;
}

/** The engine's own client. */
type Engine = (...args: string[]) => Promise<{ stdout: string }>;

/** By the engine's own client: `command` takes a name from an image. */
export const forgetBy = (engine: Engine, ...command: string[]) => async () => {
  const { stdout } = await engine("images", "--format", "{{.Repository}}:{{.Tag}}");
  const names = stdout.split("\n").filter((name) => name && !/<none>|base:taken/.test(name));
  for (const name of names) await engine(...command, name);
  return names.length;
};

/** What there is of deployments that have two networks, and an anonymous volume for each instance. */
export function engineFound(engine: Engine): Pick<CrashUnderTest, "found" | "expected"> {
  const lines = async (...args: string[]) => (await engine(...args)).stdout.match(/^.+$/gm) ?? [];
  const labelled = ["--filter", "label=svc.deployment"];
  return {
    async found() {
      const { containers, networks, volumes } = await madeBy(engine);
      return {
        containers: containers.length,
        running: (await lines("ps", "-q", ...labelled)).length,
        networks: networks.length,
        anonymous: volumes.filter((name) => /^[0-9a-f]{64}$/.test(name)).length,
      };
    },
    expected: (instances, running) => ({
      ...{ containers: instances, running },
      networks: instances > 0 ? 2 : 0,
      anonymous: instances,
    }),
  };
}

export function engineFaults(
  test: OwnTest,
  { backend, image }: DeployBackendUnderTest,
  { socket, made, forget }: FaultyEngine,
): void {
  test("a full subnet is told and leaves nothing; its addresses come back", async () => {
    const name = "full";
    // The bridge has one, and one is left.
    const networks = [{ name: "tiny", subnet: "10.123.46.0/30" }];
    const spec = (replicas: number) => quickSpec(name, image, { networks, replicas });
    const before = await made();
    try {
      await assert.rejects(backend().apply(spec(2)), {
        code: "conflict",
        message: /all addresses of (a network|network tiny) are in use/,
      });
      assert.equal(await backend().status(name), undefined);
      assert.deepEqual(await made(), before);
      assert.equal((await backend().apply(spec(1))).action, "created");
    } finally {
      await backend().delete(name);
    }
  });

  test("the engine's socket is gone for a while: told, and all is as it was afterwards", async () => {
    const name = "cut-off";
    const spec = (version: string) => quickSpec(name, image, { env: { VERSION: version } });
    try {
      await backend().apply(spec("1"));
      await Deno.rename(socket, `${socket}.away`);
      try {
        for (const refused of [spec("2"), quickSpec("unborn", image)]) {
          await assert.rejects(backend().apply(refused), {
            code: "unavailable",
            message: /there is no such socket/,
          });
        }
      } finally {
        await Deno.rename(`${socket}.away`, socket);
      }
      assert.equal((await backend().apply(spec("1"))).action, "unchanged");
      assert.equal(await backend().status("unborn"), undefined);
      assert.equal((await made()).containers.length, 1);
    } finally {
      await backend().delete(name);
    }
  });

  if (!forget) return;
  test("its image is removed by others: what runs goes on, restarts, and is replaced", async () => {
    const name = "kept";
    try {
      await backend().apply(quickSpec(name, image));
      const before = await runs(backend(), name);
      assert.ok(await forget() > 0);
      assert.deepEqual(await runs(backend(), name), before);
      assert.equal((await backend().power(name, "restart")).state, "running");
      await forget();
      const spec = quickSpec(name, image, { env: { NEW: "1" } });
      assert.equal((await backend().apply(spec)).action, "replaced");
    } finally {
      await backend().delete(name);
    }
  });
}
