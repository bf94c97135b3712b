/** What every backend does that schedules replicas itself: updateConfig, and who is led to meanwhile. */
import assert from "node:assert/strict";
import type { DeploySpec } from "../../lib/api/deploy_spec.ts";
import type { InstanceEvent } from "../../lib/api/deployment.ts";
import { freePort } from "../fixtures/free_port.ts";
import { eventually } from "../waits.ts";
import type { DeployBackendUnderTest, OwnTest } from "./deploy_suite.ts";
import { execute, quickSpec, runs } from "./deploy_tools.ts";

/** Serves its own name on 8080; `before` comes first. */
const serving = (before = "") =>
  `${before} mkdir -p /tmp/www; echo "$HOSTNAME $V" > /tmp/www/index.html; ` +
  "exec httpd -f -p 8080 -h /tmp/www";

function tools(test: OwnTest, under: DeployBackendUnderTest) {
  const { backend } = under;
  const withName = (title: string, name: string, fn: (name: string) => Promise<void>) =>
    test(title, async () => {
      try {
        await fn(name);
      } finally {
        await backend().delete(name);
      }
    });
  const spec = (name: string, version: string, more: Record<string, unknown> = {}): DeploySpec => {
    const { before, ...rest } = more;
    return quickSpec(name, under.image, {
      command: ["sh", "-c", serving(before as string)],
      env: { V: version },
      ...rest,
    });
  };
  return { backend, withName, spec };
}

export function deployRollOut(test: OwnTest, under: DeployBackendUnderTest): void {
  const { backend, withName, spec } = tools(test, under);
  const versions = async (name: string, replicas: number) => {
    const one = async (instance: string) => {
      const command = ["sh", "-c", "echo $V"];
      return (await execute(backend(), name, { command, instance })).stdout.trim();
    };
    return await Promise.all(Array.from({ length: replicas }, (_, i) => one(String(i))));
  };
  /** What happens while `work` is done, until so many came and went. */
  const during = async (
    work: () => Promise<unknown>,
    count: number,
    ...types: InstanceEvent["type"][]
  ): Promise<InstanceEvent[]> => {
    const watching = new AbortController();
    const seen: InstanceEvent[] = [];
    const watched = (async () => {
      for await (const event of backend().events(watching.signal)) seen.push(event);
    })();
    try {
      await work();
      const told = (wanted: string) => seen.filter(({ type }) => type === wanted).length;
      await eventually(
        `${count} times ${types.join(" and ")}`,
        () => Promise.resolve(types.every((type) => told(type) >= count)),
      );
    } finally {
      watching.abort();
      await watched;
    }
    return seen;
  };
  /** The least and the most that there were, from `begin` on, when one came or went. */
  const range = (events: InstanceEvent[], begin: number, came: string, went: string) => {
    let now = begin;
    const counts = events.map(({ type }) => now += type === came ? 1 : type === went ? -1 : 0);
    return [Math.min(begin, ...counts), Math.max(begin, ...counts), now];
  };

  for (const [replicas, parallelism] of [[3, 1], [4, 2]]) {
    withName(
      `${parallelism} of ${replicas} replicas at a time, the new ones first`,
      `first-${parallelism}`,
      async (name) => {
        const updateConfig = { parallelism };
        await backend().apply(spec(name, "1", { replicas, updateConfig }));
        const next = spec(name, "2", { replicas, updateConfig });
        const events = await during(() => backend().apply(next), replicas, "created", "removed");
        assert.deepEqual(range(events, replicas, "created", "removed"), [
          replicas,
          replicas + parallelism,
          replicas,
        ]);
        assert.deepEqual(await versions(name, replicas), Array(replicas).fill("2"));
        assert.equal(
          (await backend().apply(spec(name, "2", { replicas, updateConfig }))).action,
          "unchanged",
        );
      },
    );
    withName(
      `${parallelism} of ${replicas} replicas at a time, the old ones first`,
      `stop-${parallelism}`,
      async (name) => {
        const updateConfig = { parallelism, order: "stop-first" };
        await backend().apply(spec(name, "1", { replicas, updateConfig }));
        const next = spec(name, "2", { replicas, updateConfig });
        const events = await during(() => backend().apply(next), replicas, "started", "died");
        assert.deepEqual(range(events, replicas, "started", "died"), [
          replicas - parallelism,
          replicas,
          replicas,
        ]);
        assert.deepEqual(await versions(name, replicas), Array(replicas).fill("2"));
      },
    );
  }

  withName(
    "a new instance that fails stops the roll-out, and the old ones stay",
    "halt",
    async (name) => {
      const more = { replicas: 4, updateConfig: { parallelism: 2 } };
      await backend().apply(spec(name, "1", more));
      const first = await runs(backend(), name);
      const bad = spec(name, "2", { ...more, before: `[ "$HOSTNAME" != ${name}-3 ] || exit 3;` });
      await assert.rejects(backend().apply(bad), (error: Error & { help?: string }) => {
        assert.match(error.message, /halt-3 exited with code 3/);
        assert.match(error.help ?? "", /^2 of 4 instances are replaced already/);
        return true;
      });
      assert.deepEqual(await versions(name, 4), ["2", "2", "1", "1"]);
      assert.deepEqual((await runs(backend(), name)).slice(2), first.slice(2));
      const status = (await backend().status(name))!;
      assert.equal(status.state, "running");
      assert.match(status.error ?? "", /exited with code 3/);
      assert.equal((await backend().spec(name))!.env.V, "1");
      // Each stays what it was made of.
      await under.reopen();
      await backend().power(name, "restart");
      assert.deepEqual(await versions(name, 4), ["2", "2", "1", "1"]);
      const before = await runs(backend(), name);
      assert.equal((await backend().apply(spec(name, "1", more))).action, "replaced");
      assert.deepEqual(await versions(name, 4), ["1", "1", "1", "1"]);
      assert.deepEqual(
        (await runs(backend(), name)).slice(2),
        before.slice(2),
        "what is so already is left alone",
      );
      assert.equal((await backend().status(name))!.error, undefined);
    },
  );

  withName("old ones that ended first come back where the new ones fail", "back", async (name) => {
    const more = {
      replicas: 3,
      restart: "no",
      updateConfig: { parallelism: 1, order: "stop-first" },
    };
    await backend().apply(spec(name, "1", more));
    const bad = spec(name, "2", { ...more, before: "exit 3;" });
    await assert.rejects(backend().apply(bad), { code: "deploy_failed" });
    assert.deepEqual(await versions(name, 3), ["1", "1", "1"]);
    assert.equal((await backend().spec(name))!.env.V, "1");
    await backend().power(name, "stop");
    await assert.rejects(backend().apply(bad), { code: "deploy_failed" });
    const { state, instances } = (await backend().status(name))!;
    assert.equal(state, "stopped", "what did not run is not started");
    assert.deepEqual(instances.map((one) => one.state), ["exited", "exited", "exited"]);
  });
}

/** For engines that lead a published port to every replica. */
export function deployInTurn(test: OwnTest, under: DeployBackendUnderTest): void {
  const { backend, withName, spec } = tools(test, under);
  withName(
    "published ports and connections go round the replicas that are ready",
    "round",
    async (name) => {
      const port = freePort();
      await backend().apply(spec(name, "1", {
        replicas: 3,
        ports: [`127.0.0.1:${port}:8080`],
        healthcheck: {
          test: "test ! -e /tmp/ill",
          interval: "100ms",
          startInterval: "100ms",
          timeout: "60s",
          retries: 1,
        },
      }));
      assert.equal((await backend().status(name))!.ports.length, 1);
      const published = async () => {
        const response = await fetch(`http://127.0.0.1:${port}/`, {
          headers: { connection: "close" },
          signal: AbortSignal.timeout(60_000),
        });
        return (await response.text()).trim();
      };
      const dialled = async () => {
        const stream = await backend().dial(name, 8080, "tcp");
        await stream.write(new TextEncoder().encode("GET / HTTP/1.0\r\n\r\n"));
        let text = "";
        for (let bytes = await stream.read(); bytes; bytes = await stream.read()) {
          text += new TextDecoder().decode(bytes);
        }
        stream.reset();
        return text.trim().split("\n").at(-1);
      };
      const answers = async (ask: () => Promise<string | undefined>) => {
        const given = [];
        for (let i = 0; i < 12; i++) given.push(await ask());
        return [...new Set(given)].sort();
      };
      const all = [0, 1, 2].map((replica) => `${name}-${replica} 1`);
      const [, ...well] = all;
      await eventually("all listen", async () => (await answers(published)).length === 3);
      assert.deepEqual(await answers(published), all);
      assert.deepEqual(await answers(dialled), all);
      const touch = (command: string[]) => execute(backend(), name, { command, instance: "0" });
      await touch(["touch", "/tmp/ill"]);
      await eventually("it is left out", async () => (await answers(published)).length === 2);
      assert.deepEqual(await answers(published), well, "nothing goes to one that is ill");
      assert.deepEqual(await answers(dialled), well);
      await touch(["rm", "/tmp/ill"]);
      await eventually("it is back", async () => (await answers(published)).length === 3);
      await backend().power(name, "stop");
      await assert.rejects(published());
    },
  );
}
