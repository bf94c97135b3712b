/** What instances use: what every backend with the ability `stats` tells. */
import assert from "node:assert/strict";
import type { InstanceStats } from "../../lib/deploy/caps.ts";
import { eventually } from "../waits.ts";
import type { DeployBackendUnderTest, Need, Test } from "./deploy_suite.ts";
import { execute, quickSpec, shell } from "./deploy_tools.ts";

const MIB = 1024 ** 2;

export function deployStats(test: Test, under: DeployBackendUnderTest): void {
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
  const all = (name: string, options?: { instance: string }): Promise<InstanceStats[]> =>
    Array.fromAsync(backend().caps.stats!(name, options));
  const one = async (name: string) => (await all(name))[0];

  withName(
    "stats: CPU, memory, processes and network of an instance",
    "used",
    ["stats", "exec", "groups"],
    async (name) => {
      await backend().apply(quickSpec(name, image, { resources: { memoryLimit: 64 * MIB } }));
      const before = await one(name);
      assert.equal(before.instance, `${name}-0`);
      assert.ok(Math.abs(Date.parse(before.time) - Date.now()) < 3600_000);
      assert.equal(before.memoryLimit, 64 * MIB);
      assert.ok(before.processes >= 1);
      assert.ok(before.received !== undefined && before.sent !== undefined);
      const holder = await backend().caps.exec!(name, {
        command: shell(
          "dd if=/dev/zero of=/dev/shm/held bs=1M count=16 2>/dev/null; echo held; cat",
        ),
      });
      const reader = holder.stdout.getReader();
      assert.match(new TextDecoder().decode((await reader.read()).value), /held/);
      await eventually("memory", async () => (await one(name)).memory > before.memory + 15 * MIB);
      const held = await one(name);
      assert.ok(held.processes > before.processes, `${held.processes} processes`);
      assert.ok(held.cpu > before.cpu, `${held.cpu} ns`);
      // What the kernel counts of disks differs from host to host.
      assert.ok(held.blockRead >= before.blockRead && held.blockWritten >= before.blockWritten);
      await holder.stdin.close();
      await Promise.all([holder.exit, reader.cancel(), holder.stderr.cancel()]);
      const { sent = 0 } = await one(name);
      // To an address that is nobody's (RFC 5737).
      await eventually("packets", async () => {
        await execute(backend(), name, { command: shell("echo | nc -w 1 192.0.2.1 9; true") });
        return ((await one(name)).sent ?? 0) > sent;
      });
    },
  );

  withName(
    "stats: of each instance, again and again, until the reader leaves or none runs",
    "repeated",
    ["stats", "spec.replicas", "groups"],
    async (name) => {
      await backend().apply(quickSpec(name, image, { replicas: 2 }));
      const both = [`${name}-0`, `${name}-1`];
      assert.deepEqual((await all(name)).map(({ instance }) => instance).sort(), both);
      const [second] = await all(name, { instance: "1" });
      assert.equal(second.instance, both[1]);
      const abort = new AbortController();
      const seen: InstanceStats[] = [];
      const { signal } = abort;
      for await (const sample of backend().caps.stats!(name, { everyMs: 50, signal })) {
        seen.push(sample);
        if (seen.length === 6) abort.abort();
      }
      assert.equal(seen.length, 6);
      const times = seen.filter(({ instance }) => instance === both[0]).map(({ time }) => time);
      assert.deepEqual(times, [...new Set(times)].sort());
      let taken = 0;
      for await (const _ of backend().caps.stats!(name, { everyMs: 50 })) {
        if (++taken === 4) await backend().power(name, "stop");
      }
      assert.ok(taken >= 4);
      assert.deepEqual(await all(name), []);
      await assert.rejects(all(name, { instance: "0" }), { code: "conflict" });
      await assert.rejects(all(name, { instance: "9" }), { code: "not_found" });
      await assert.rejects(all("nobody"), { code: "not_found" });
    },
  );

  withName(
    "stats: nothing is told of the host's network",
    "hostly",
    ["stats", "spec.networks.name", "groups", "network.host"],
    async (name) => {
      try {
        await under.reopen(undefined, ["networks"]);
        await backend().apply(quickSpec(name, image, {
          networks: ["host"],
          command: ["sleep", "1000"],
        }));
        const { received, sent } = await one(name);
        assert.deepEqual([received, sent], [undefined, undefined]);
      } finally {
        await backend().delete(name);
        await under.reopen();
      }
    },
  );
}
