import assert from "node:assert/strict";
import { silent } from "../../../lib/base/log.ts";
import type { HealthPlan } from "../../../lib/deploy/container_config.ts";
import type { IncusCall, IncusClient } from "../../../lib/incus/client.ts";
import type { Instance } from "../../../lib/incus/types.ts";
import { HEALTH } from "./instance.ts";
import { Keeper } from "./keeper.ts";

const PLAN: HealthPlan = {
  command: ["true"],
  ...{ interval: 1, startInterval: 1, startPeriod: 0, timeout: 60_000, retries: 3 },
};

Deno.test("what ends by force is not probed: the probe that enters it is waited for", async () => {
  const folder = await Deno.makeTempDir();
  const asked = Promise.withResolvers<void>();
  const entered = Promise.withResolvers<never>();
  let probes = 0;
  const client = {
    get: () => Promise.resolve({ config: {}, pid: 1 }),
    begin({ path }: IncusCall) {
      if (!path.endsWith("/exec")) return Promise.reject(new Error("it has no console"));
      probes++;
      asked.resolve();
      return entered.promise;
    },
  } as unknown as IncusClient;
  const keeper = new Keeper({
    ...{ client, folder, name: "web-0", log: silent },
    restart: () => Promise.resolve(),
    changed: () => {},
  });
  try {
    await keeper.see({
      ...{ name: "web-0", status: "Running", status_code: 103 },
      last_used_at: "2026-01-01T00:00:00Z",
      config: { [HEALTH]: JSON.stringify(PLAN) },
    } as unknown as Instance);
    await asked.promise;
    const order: string[] = [];
    const unprobed = keeper.unprobed().then(() => order.push("no probe enters it"));
    queueMicrotask(() => {
      order.push("the probe ends");
      entered.reject(new Error("it ended"));
    });
    await unprobed;
    assert.deepEqual(order, ["the probe ends", "no probe enters it"]);
    assert.equal(probes, 1);
  } finally {
    await keeper.close();
    await Deno.remove(folder, { recursive: true });
  }
});
