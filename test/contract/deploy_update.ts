/** Changes of instances as they are: what every backend with the ability `update` does. */
import assert from "node:assert/strict";
import { eventually } from "../waits.ts";
import type { DeployBackendUnderTest, Need, Test } from "./deploy_suite.ts";
import { execute, quickSpec, shell } from "./deploy_tools.ts";

const MIB = 1024 ** 2;

export function deployUpdate(test: Test, under: DeployBackendUnderTest): void {
  const { backend, image } = under;
  const withName = (
    title: string,
    name: string,
    needs: readonly Need[],
    fn: (name: string) => Promise<void>,
  ) =>
    test(title, needs, async () => {
      try {
        await fn(name);
      } finally {
        await backend().delete(name);
      }
    });
  const update = (...args: Parameters<NonNullable<ReturnType<typeof backend>["caps"]["update"]>>) =>
    backend().caps.update!(...args);
  const limit = async (name: string) =>
    (await Array.fromAsync(backend().caps.stats!(name)))[0]?.memoryLimit;
  const first = async (name: string) => (await backend().status(name))!.instances[0];

  withName(
    "update: bounds of a running instance, which goes on, also of its next start and after the server's",
    "bound",
    ["update", "stats", "groups"],
    async (name) => {
      const spec = quickSpec(name, image, { resources: { memoryLimit: 64 * MIB } });
      await backend().apply(spec);
      const { startedAt } = await first(name);
      await update(name, { memoryLimit: 96 * MIB, cpuLimit: 0.5 });
      assert.equal(await limit(name), 96 * MIB);
      await update(name, { memoryLimit: 48 * MIB });
      assert.equal(await limit(name), 48 * MIB);
      assert.equal((await first(name)).startedAt, startedAt, "it was not started again");
      assert.deepEqual(await backend().spec(name), spec, "the spec stays");
      await under.reopen();
      assert.equal((await backend().apply(spec)).action, "unchanged");
      await backend().power(name, "restart");
      assert.equal(await limit(name), 48 * MIB);
      await backend().power(name, "stop");
      await update(name, { memoryLimit: 80 * MIB });
      await backend().power(name, "start");
      assert.equal(await limit(name), 80 * MIB);
      await assert.rejects(
        update(name, { reservedMemory: 100 * MIB }),
        (error: { code: string }) => ["argument_invalid", "conflict"].includes(error.code),
      );
      assert.equal(await limit(name), 80 * MIB);
      assert.equal((await backend().apply(spec, {}, { recreate: true })).action, "replaced");
      assert.equal(await limit(name), 64 * MIB, "an apply makes it as the spec says");
      await assert.rejects(update("nobody", { cpuLimit: 1 }), { code: "not_found" });
      await assert.rejects(update(name, { cpuLimit: 1 }, { instance: "9" }), {
        code: "not_found",
      });
    },
  );

  withName(
    "update: the restart policy of a running instance, also after the server's start",
    "policy",
    ["update", "exec", "spec.restart"],
    async (name) => {
      // By itself: what somebody kills, Docker takes for stopped.
      const script = "while [ ! -e /end ]; do sleep 0.05; done; rm /end; exit 3";
      const die = () => execute(backend(), name, { command: ["touch", "/end"] });
      await backend().apply(quickSpec(name, image, { command: shell(script), restart: "no" }));
      await update(name, { restart: "always" });
      const { startedAt } = await first(name);
      await die();
      await eventually("its next start", async () => {
        const now = await first(name);
        return now.state === "running" && now.startedAt !== startedAt;
      });
      await under.reopen();
      await update(name, { restart: "no" });
      await under.reopen();
      await die();
      await eventually("its end", async () => (await first(name)).state === "exited");
      assert.equal((await backend().status(name))!.state, "failed");
    },
  );
}
