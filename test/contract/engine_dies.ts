/** An engine that dies in the middle of things, or the way to it, and comes back. */
import assert from "node:assert/strict";
import type { LogFrame } from "../../lib/api/deployment.ts";
import { eventually } from "../waits.ts";
import type { DeployBackendUnderTest, OwnTest } from "./deploy_suite.ts";
import { execute, lines, quickSpec, runs, shell, UNDECIDED } from "./deploy_tools.ts";

export interface MortalEngine {
  /** What dies; default: "a daemon". */
  what?: string;
  daemon: { kill9(): Promise<void>; start(): Promise<void> };
  /** What the engine has for the deployment. */
  containers(deployment: string): Promise<string[]>;
  /** The server has the logs itself: who reads them goes on. */
  ownLogs?: true;
}

export function engineDies(
  test: OwnTest,
  { backend, image }: DeployBackendUnderTest,
  { what = "a daemon", daemon, containers, ownLogs }: MortalEngine,
): void {
  const logs = (name: string) => backend().logs(name, { follow: true });

  test(`${what} that dies in mid-apply, mid-log and mid-exec: each ends and says so`, async () => {
    const name = "cut-off";
    const spec = (version: string, more = {}) =>
      quickSpec(name, image, {
        restart: "always",
        env: { V: version },
        command: shell("echo begun $V; exec sleep 1000"),
        ...more,
      });
    try {
      await backend().apply(spec("1"));
      const unavailable = { code: "unavailable" };
      const printed = Promise.withResolvers<LogFrame>();
      const read = async () => {
        for await (const frames of logs(name)) frames.forEach(printed.resolve);
      };
      const followed = ownLogs ? read() : assert.rejects(read, unavailable);
      assert.equal((await printed.promise).line, "begun 1");
      const session = await backend().caps.exec!(name, { command: shell("echo here; sleep 1000") });
      const reader = session.stdout.getReader();
      assert.equal(new TextDecoder().decode((await reader.read()).value), "here\n");
      const exec = assert.rejects(session.exit, unavailable);
      // Whether its output ends or fails, it does not hang.
      const output = reader.read().then(({ done }) => assert.ok(done), () => {/* it fails */});
      const applied = assert.rejects(
        backend().apply(spec("2", { healthcheck: UNDECIDED })),
        unavailable,
      );
      await eventually("the new one is there", async () => (await containers(name)).length === 2);
      await daemon.kill9();
      await Promise.all([exec, output, applied]);
      if (!ownLogs) await followed;
      await assert.rejects(backend().status(name), unavailable);
      await daemon.start();
      await eventually("the old one runs, and nothing is left of the new one", async () => {
        const status = await backend().status(name).catch(() => undefined);
        return status?.state === "running" && (await containers(name)).length === 1;
      });
      assert.equal((await backend().spec(name))!.env.V, "1");
      const seen = await execute(backend(), name, { command: shell("echo $V") });
      assert.equal(seen.stdout, "1\n");
      assert.ok((await lines(backend(), name)).every((line) => line === "begun 1"));
      const before = await runs(backend(), name);
      assert.equal((await backend().apply(spec("2"))).action, "replaced");
      assert.notDeepEqual(await runs(backend(), name), before);
      if (ownLogs) await followed;
    } finally {
      await backend().delete(name);
    }
  });
}
