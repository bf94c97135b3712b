/** What a backend tells of its instances as it happens, and what it remembers of their specs. */
import assert from "node:assert/strict";
import type { InstanceEvent } from "../../lib/api/deployment.ts";
import type { DeployBackend } from "../../lib/deploy/backend.ts";
import type { DeployBackendUnderTest, Need, Test } from "./deploy_suite.ts";
import { execute, quickSpec, shell, tell, UNTIL_TOLD } from "./deploy_tools.ts";

/** "died 3" */
const shown = (event: InstanceEvent) =>
  event.type === "died" ? `died ${event.exitCode}` : event.type;

/** Somebody who reads everything as it comes. */
export class Watcher implements AsyncDisposable {
  readonly seen: InstanceEvent[] = [];
  #abort = new AbortController();
  #changed = Promise.withResolvers<void>();
  #ended: Promise<void>;

  constructor(backend: DeployBackend, readonly name: string) {
    this.#ended = this.#read(backend.events(this.#abort.signal));
    this.#ended.catch(() => {/* told by who waits */});
  }

  async #read(events: AsyncIterable<InstanceEvent>): Promise<void> {
    for await (const event of events) {
      if (event.deployment !== this.name) continue;
      this.seen.push(event);
      this.#changed.resolve();
      this.#changed = Promise.withResolvers();
    }
  }

  /** What was seen, once the last of it is that. */
  async until(last: string): Promise<string[]> {
    const late = setTimeout(() => this.#abort.abort(), 60_000);
    try {
      while (this.seen.length === 0 || shown(this.seen.at(-1)!) !== last) {
        const changed = this.#changed.promise;
        await Promise.race([changed, this.#ended]);
        const seen = this.seen.map(shown).join(", ");
        assert.ok(!this.#abort.signal.aborted, `${last} did not come after: ${seen}`);
      }
      return this.seen.map(shown);
    } finally {
      clearTimeout(late);
    }
  }

  /** Forgets what was seen. */
  again(): void {
    this.seen.length = 0;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#abort.abort();
    await this.#ended;
  }
}

export function deployEvents(test: Test, under: DeployBackendUnderTest): void {
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
  const untilTold = (code: number) => shell(`${UNTIL_TOLD} until_told end; exit ${code}`);
  const healthcheck = { test: "true", interval: "100ms", timeout: "60s" };

  withName(
    "events: from the making of an instance to its removal, in order",
    "told",
    ["exec", "spec.restart"],
    async (name) => {
      await using watcher = new Watcher(backend(), name);
      const spec = quickSpec(name, image, { command: untilTold(3), restart: "no", healthcheck });
      await backend().apply(spec);
      assert.deepEqual(await watcher.until("healthy"), ["created", "started", "healthy"]);
      await tell(backend(), name, "end");
      await watcher.until("died 3");
      // A status that is asked after an event shows what it told.
      const [{ state, exitCode }] = (await backend().status(name))!.instances;
      assert.deepEqual([state, exitCode], ["exited", 3]);
      const gone = (async () => {
        await watcher.until("removed");
        return await backend().status(name);
      })();
      await backend().delete(name);
      assert.equal(await gone, undefined);
      assert.deepEqual(
        watcher.seen.map(shown),
        ["created", "started", "healthy", "died 3", "removed"],
      );
      for (const { instance, container, time } of watcher.seen) {
        assert.deepEqual([instance, container], [`${name}-0`, watcher.seen[0].container]);
        assert.ok(Math.abs(Date.parse(time) - Date.now()) < 600_000);
      }
    },
  );

  withName("events: what falls ill is told", "told-ill", ["exec"], async (name) => {
    await using watcher = new Watcher(backend(), name);
    const test = "test ! -e /tmp/end";
    await backend().apply(
      quickSpec(name, image, { healthcheck: { test, interval: "100ms", retries: 1 } }),
    );
    await watcher.until("healthy");
    await tell(backend(), name, "end");
    await watcher.until("unhealthy");
    assert.equal((await backend().status(name))!.instances[0].state, "unhealthy");
    await execute(backend(), name, { command: ["rm", "/tmp/end"] });
    await watcher.until("healthy");
  });

  withName("events: a restart by the policy is a death and a start", "told-again", [
    "exec",
    "spec.restart",
  ], async (name) => {
    await using watcher = new Watcher(backend(), name);
    const spec = { command: untilTold(5), restart: "on-failure:1" };
    await backend().apply(quickSpec(name, image, spec));
    await tell(backend(), name, "end");
    await watcher.until("died 5");
    assert.equal((await backend().status(name))!.state, "pending", "a restart is due");
    await watcher.until("started");
    await tell(backend(), name, "end");
    await watcher.until("died 5");
    assert.equal((await backend().status(name))!.state, "failed");
    assert.deepEqual(
      watcher.seen.map(shown),
      ["created", "started", "died 5", "started", "died 5"],
    );
  });

  withName("events: stopped on purpose, started, replaced", "told-power", [], async (name) => {
    await backend().apply(quickSpec(name, image));
    await using watcher = new Watcher(backend(), name);
    await backend().power(name, "stop");
    assert.deepEqual(await watcher.until("stopped"), ["died 137", "stopped"]);
    assert.equal((await backend().status(name))!.state, "stopped");
    await backend().power(name, "stop");
    await backend().power(name, "start");
    assert.deepEqual(await watcher.until("started"), ["died 137", "stopped", "started"]);
    const { container: old } = watcher.seen[0];
    watcher.again();
    await backend().apply(quickSpec(name, image, { env: { CHANGED: "1" } }));
    await watcher.until("removed");
    const of = (own: boolean) =>
      watcher.seen.filter(({ container }) => (container === old) === own).map(shown);
    assert.deepEqual(of(true), ["died 137", "removed"]);
    assert.deepEqual(of(false), ["created", "started"]);
    watcher.again();
    const unchanged = await backend().apply(quickSpec(name, image, { env: { CHANGED: "1" } }));
    assert.equal(unchanged.action, "unchanged");
    await backend().delete(name);
    assert.deepEqual(await watcher.until("removed"), ["died 137", "removed"]);
  });

  withName(
    "events: a first apply that fails takes back what it told",
    "told-bad",
    [],
    async (name) => {
      await using watcher = new Watcher(backend(), name);
      const spec = quickSpec(name, image, { command: ["sh", "-c", "exit 3"], healthcheck });
      await assert.rejects(backend().apply(spec), { code: "deploy_failed" });
      assert.deepEqual(await watcher.until("removed"), ["created", "started", "died 3", "removed"]);
    },
  );

  withName("events: what used more memory than it may is told before its end", "told-oom", [
    "exec",
    "spec.resources.memoryLimit",
    "spec.restart",
    "oom",
  ], async (name) => {
    await using watcher = new Watcher(backend(), name);
    const command = shell(
      `${UNTIL_TOLD} until_told end; exec dd if=/dev/zero of=/dev/null bs=256M`,
    );
    const resources = { memoryLimit: "32Mi" };
    await backend().apply(quickSpec(name, image, { command, resources, restart: "no" }));
    await tell(backend(), name, "end");
    const seen = ["created", "started", "oom", "died 137"];
    assert.deepEqual(await watcher.until("died 137"), seen);
  });

  withName(
    "events: several watch, one slowly, each until its signal",
    "told-many",
    [],
    async (name) => {
      const [slow, other] = [new AbortController(), new AbortController()];
      const waiting = backend().events(slow.signal);
      const ending = Array.fromAsync(backend().events(other.signal));
      await using first = new Watcher(backend(), name);
      await using second = new Watcher(backend(), name);
      // Nobody reads `waiting`: nothing waits for it.
      await backend().apply(quickSpec(name, image, { healthcheck }));
      for (const watcher of [first, second]) {
        assert.deepEqual(await watcher.until("healthy"), ["created", "started", "healthy"]);
      }
      other.abort();
      assert.ok((await ending).length <= 3);
      await backend().delete(name);
      await first.until("removed");
      const late: string[] = [];
      for await (const event of waiting) {
        late.push(shown(event));
        if (event.type === "removed") slow.abort();
      }
      assert.deepEqual(late, first.seen.map(shown));
    },
  );

  withName("the spec is what was applied last", "spec", [], async (name) => {
    assert.equal(await backend().spec(name), undefined);
    const spec = quickSpec(name, image, { env: { A: "1" }, labels: { kept: "yes" } });
    await backend().apply(spec);
    assert.deepEqual(await backend().spec(name), spec);
    await assert.rejects(backend().apply({ ...spec, env: { A: "2" }, image: "no-such-image" }));
    await under.reopen();
    assert.deepEqual(await backend().spec(name), spec, "not what failed");
    await backend().delete(name);
    assert.equal(await backend().spec(name), undefined);
  });

  withName(
    "what svc adds to the environment gives way to the spec's",
    "added",
    ["exec"],
    async (name) => {
      const spec = quickSpec(name, image, { env: { A: "spec" } });
      const seen = async () =>
        (await execute(backend(), name, { command: ["sh", "-c", "echo $A $B"] })).stdout;
      const env = { A: "svc", B: "svc" };
      await backend().apply(spec, { env });
      assert.equal(await seen(), "spec svc\n");
      assert.deepEqual(await backend().spec(name), spec);
      assert.equal((await backend().apply(spec, { env })).action, "unchanged");
      assert.equal((await backend().apply(spec, { env: { B: "new" } })).action, "replaced");
      assert.equal(await seen(), "spec new\n");
      await backend().power(name, "restart");
      assert.equal(await seen(), "spec new\n");
    },
  );
}
