/** What every DeployBackend must do; see lib/deploy/backend.ts. */
import assert from "node:assert/strict";
import type { DeploySpec } from "../../lib/api/deploy_spec.ts";
import type { LogFrame } from "../../lib/api/deployment.ts";
import { readAll } from "../../lib/wire/testing.ts";
import { eventually } from "../waits.ts";
import type { DeployBackendUnderTest, Need, Test } from "./deploy_suite.ts";
import {
  execute,
  lines,
  quickSpec,
  runs,
  shell,
  tell,
  UNDECIDED,
  UNTIL_TOLD,
} from "./deploy_tools.ts";

export function deployBackendContract(test: Test, under: DeployBackendUnderTest): void {
  const { backend } = under;
  const spec = (name: string, more?: Record<string, unknown>): DeploySpec =>
    quickSpec(name, under.image, more);
  /** A test with a deployment of its own, which goes whatever happens. */
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

  test("what is not there is undefined, false or not_found", [], async () => {
    assert.equal(await backend().status("nobody"), undefined);
    assert.equal(await backend().delete("nobody"), false);
    await assert.rejects(backend().power("nobody", "stop"), { code: "not_found" });
    await assert.rejects(lines(backend(), "nobody"), { code: "not_found" });
    await assert.rejects(backend().dial("nobody", 1, "tcp"), { code: "not_found" });
    // Who asks the registry: svc, or the engine, for which the deployment is there already.
    await assert.rejects(backend().apply(spec("nobody", { image: "no-such-image" })), {
      code: /^(manifest_unknown|deploy_failed)$/,
    });
    assert.deepEqual(await backend().list(), []);
    assert.equal(await backend().spec("nobody"), undefined);
  });

  withName(
    "apply creates, leaves alone, replaces; delete removes",
    "life",
    ["exec"],
    async (name) => {
      const created = await backend().apply(spec(name, { replicas: 2, env: { A: "1" } }));
      assert.equal(created.action, "created");
      assert.equal(created.deployment.state, "running");
      const ids = created.deployment.instances.map(({ id }) => id);
      assert.deepEqual([new Set(ids).size, ids.every((id) => id.startsWith("life-"))], [2, true]);
      assert.match(created.deployment.imageDigest ?? "", /^sha256:/);
      const first = await runs(backend(), name);
      const again = await backend().apply(spec(name, { env: { A: "1" }, replicas: 2 }));
      assert.equal(again.action, "unchanged");
      assert.deepEqual(await runs(backend(), name), first);
      const changed = await backend().apply(spec(name, { env: { A: "2" } }));
      assert.equal(changed.action, "replaced");
      assert.equal(changed.deployment.instances.length, 1);
      const [now] = await runs(backend(), name);
      assert.ok(!first.includes(now), now);
      const seen = await execute(backend(), name, { command: shell("echo $A") });
      assert.equal(seen.stdout, "2\n");
      assert.deepEqual((await backend().list()).map((d) => d.name), [name]);
      assert.equal(await backend().delete(name), true);
      assert.equal(await backend().status(name), undefined);
    },
  );

  withName(
    "logs: both streams, tail, following to the end",
    "logs",
    ["exec", "spec.restart", "logs.streams"],
    async (name) => {
      const script = `${UNTIL_TOLD} echo one; until_told a; echo two >&2; until_told b; ` +
        "echo three; printf four";
      await backend().apply(spec(name, { command: shell(script), restart: "no" }));
      const frames: LogFrame[] = [];
      for await (const some of backend().logs(name, { follow: true })) {
        frames.push(...some);
        for (const { line } of some) {
          if (line === "one") await tell(backend(), name, "a");
          if (line === "two") await tell(backend(), name, "b");
        }
      }
      assert.deepEqual(frames.map((frame) => [frame.stream, frame.line]), [
        ["stdout", "one"],
        ["stderr", "two"],
        ["stdout", "three"],
        ["stdout", "four"],
      ]);
      const { instances: [{ id }] } = (await backend().status(name))!;
      assert.ok(frames.every((frame) => frame.instance === id));
      assert.deepEqual(await lines(backend(), name, { tail: 2 }), ["three", "four"]);
      const since = new Date(frames[2].time.replace(/(\.\d{3})\d*Z$/, "$1Z"));
      // Podman 4 tells whole seconds.
      if (frames.some(({ time }) => Date.parse(time) % 1000 !== 0)) {
        assert.deepEqual(await lines(backend(), name, { since }), ["three", "four"]);
      }
      await eventually("stopped", async () => (await backend().status(name))?.state === "stopped");
      const [instance] = (await backend().status(name))!.instances;
      assert.deepEqual([instance.state, instance.exitCode], ["exited", 0]);
    },
  );

  withName("power: stop, start and restart, each twice", "power", [], async (name) => {
    await backend().apply(spec(name));
    const first = await runs(backend(), name);
    await backend().power(name, "start");
    assert.deepEqual(await runs(backend(), name), first);
    for (let i = 0; i < 2; i++) {
      const { state, instances } = await backend().power(name, "stop");
      assert.equal(state, "stopped");
      assert.ok(instances.every(({ state }) => state === "exited"));
    }
    await assert.rejects(backend().dial(name, 8080, "tcp"), { code: /^(conflict|unsupported)$/ });
    const started = await backend().power(name, "start");
    assert.equal(started.state, "running");
    const second = await runs(backend(), name);
    assert.notDeepEqual(second, first);
    await backend().power(name, "restart");
    assert.notDeepEqual(await runs(backend(), name), second);
  });

  withName("a first apply that fails leaves nothing and shows the log", "bad", [], async (name) => {
    await assert.rejects(
      backend().apply(
        spec(name, {
          command: shell("for i in $(seq 30); do echo line $i; done; exit 3"),
          healthcheck: UNDECIDED,
        }),
      ),
      (error: { code?: string; message: string }) => {
        assert.equal(error.code, "deploy_failed");
        assert.match(error.message, /code 3.*\n {2}line 11\n/s);
        assert.doesNotMatch(error.message, /line 10\n/);
        return true;
      },
    );
    assert.equal(await backend().status(name), undefined);
    await assert.rejects(backend().apply(spec(name, { command: ["/no/such/file"] })), {
      code: "deploy_failed",
      message: /no\/such\/file/,
    });
    assert.deepEqual(await backend().list(), []);
  });

  withName("a replacement that fails keeps the old instance", "keep", [], async (name) => {
    await backend().apply(spec(name));
    const before = await runs(backend(), name);
    await assert.rejects(
      backend().apply(
        spec(name, {
          command: shell("echo broken; sleep 0.3; exit 1"),
          healthcheck: UNDECIDED,
        }),
      ),
      { code: "deploy_failed", message: /broken/ },
    );
    assert.deepEqual(await runs(backend(), name), before);
    const status = await backend().status(name);
    assert.equal(status?.state, "running");
    assert.match(status?.error ?? "", /broken/);
    assert.equal((await backend().apply(spec(name))).action, "unchanged");
  });

  withName("a health check gates, and is reported", "health", [], async (name) => {
    const check = { test: "test -e /tmp/ok", interval: "300ms", timeout: "60s" };
    const script = "sleep 0.3; touch /tmp/ok; sleep 1000";
    // However slow the script is: it is given time.
    const patient = { ...check, retries: 1000 };
    const result = await backend().apply(
      spec(name, { healthcheck: patient, command: shell(script) }),
    );
    assert.equal(result.deployment.instances[0].state, "healthy");
    await assert.rejects(
      backend().apply(
        spec(name, { healthcheck: { ...check, retries: 2 }, command: ["sleep", "1000"] }),
      ),
      { code: "deploy_failed", message: /unhealthy/ },
    );
    assert.equal((await backend().status(name))?.instances[0].state, "healthy");
  });

  withName("restart policy: what fails is started again, and no more often than it says", "again", [
    "exec",
    "spec.restart",
  ], async (name) => {
    const command = shell(`${UNTIL_TOLD} until_told end; exit 5`);
    await backend().apply(spec(name, { command, restart: "on-failure:2" }));
    for (let restarts = 0; restarts <= 2; restarts++) {
      await eventually(`${restarts} restarts`, async () => {
        const [instance] = (await backend().status(name))!.instances;
        return instance.restarts === restarts && instance.state === "running";
      });
      await tell(backend(), name, "end");
    }
    await eventually("the end", async () => (await backend().status(name))!.state === "failed");
    const [{ restarts, exitCode }] = (await backend().status(name))!.instances;
    assert.deepEqual([restarts, exitCode], [2, 5]);
  });

  withName("a restarted server finds what runs, and restarts what dies", "adopt", [
    "exec",
  ], async (name) => {
    const command = shell(`${UNTIL_TOLD} echo begun; until_told end; echo over; exit 1`);
    await backend().apply(spec(name, { command }));
    const before = await runs(backend(), name);
    await under.reopen();
    assert.deepEqual(await runs(backend(), name), before);
    assert.equal((await backend().apply(spec(name, { command }))).action, "unchanged");
    await eventually("its output", async () => (await lines(backend(), name)).length > 0);
    assert.deepEqual(await lines(backend(), name), ["begun"]);
    await tell(backend(), name, "end");
    await eventually("a restart", async () => {
      const [instance] = (await backend().status(name))!.instances;
      return instance.restarts > 0 && instance.state === "running";
    });
    await backend().power(name, "stop");
    await under.reopen();
    assert.equal((await backend().status(name))?.state, "stopped");
  });

  withName("dial reaches a port of the instance", "dial", ["dial"], async (name) => {
    await backend().apply(spec(name));
    const body = async () => {
      const stream = await backend().dial(name, 8080, "tcp");
      try {
        await stream.write(new TextEncoder().encode("GET / HTTP/1.0\r\n\r\n"));
        // The answer comes all the same.
        await stream.closeWrite();
        return new TextDecoder().decode(await readAll(stream));
      } finally {
        stream.reset();
      }
    };
    const answered = /^HTTP\/1\.[01] 200 OK.*hello from busybox/s;
    await eventually("an answer", () => body().then((text) => answered.test(text), () => false));
    await assert.rejects(backend().dial(name, 1, "tcp"), { code: "upstream_failed" });
  });

  withName(
    "a folder of the host is refused unless the server permits it",
    "bound",
    [],
    async (name) => {
      await backend().apply(spec(name));
      await assert.rejects(backend().apply(spec(name, { mounts: ["/etc:/mnt"] })), {
        code: "denied",
      });
      assert.equal((await backend().status(name))?.state, "running");
    },
  );
}
