/** Signals, pauses and process lists: what every backend with the abilities `signal`, `pause` and `top` does. */
import assert from "node:assert/strict";
import { eventually } from "../waits.ts";
import type { DeployBackendUnderTest, Need, Test } from "./deploy_suite.ts";
import { execute, lines, quickSpec, shell } from "./deploy_tools.ts";

/** Counts in its log, so that it can be seen whether it goes on. */
const COUNTING = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.05; done";

export function deploySignals(test: Test, under: DeployBackendUnderTest): void {
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
  const caps = () => backend().caps;
  const instance = async (name: string) => (await backend().status(name))!.instances[0];
  const counted = async (name: string) => (await lines(backend(), name)).length;
  /** Waits until the instance writes on. */
  const counts = async (name: string) => {
    const before = await counted(name);
    await eventually("it goes on", async () => await counted(name) > before);
  };

  withName(
    "signal: by name and number, to the main process of each instance",
    "signal",
    ["signal", "spec.replicas", "spec.restart"],
    async (name) => {
      const script = "trap 'echo hup' HUP; trap 'echo usr1' USR1; echo ready; " +
        "while :; do sleep 0.05; done";
      await backend().apply(quickSpec(name, image, {
        command: shell(script),
        replicas: 2,
        restart: "no",
      }));
      const heard = async (line: string, times: number) =>
        await eventually(
          `${times} times ${line}`,
          async () => (await lines(backend(), name)).filter((one) => one === line).length === times,
        );
      await heard("ready", 2);
      await caps().signal!(name, "HUP");
      await heard("hup", 2);
      await caps().signal!(name, "SIGHUP", { instance: `${name}-1` });
      await heard("hup", 3);
      await caps().signal!(name, "10", { instance: "0" });
      await heard("usr1", 1);
      await assert.rejects(caps().signal!(name, "NOPE"), { code: "argument_invalid" });
      await assert.rejects(caps().signal!(name, "HUP", { instance: `${name}-9` }), {
        code: "not_found",
      });
      await assert.rejects(caps().signal!("nobody", "HUP"), { code: "not_found" });
      await caps().signal!(name, "KILL", { instance: `${name}-0` });
      await eventually("an end", async () => (await instance(name)).state === "exited");
      assert.equal((await instance(name)).exitCode, 137);
      await assert.rejects(caps().signal!(name, "HUP", { instance: `${name}-0` }), {
        code: "conflict",
      });
      await backend().power(name, "stop");
      await assert.rejects(caps().signal!(name, "HUP"), { code: "conflict" });
    },
  );

  withName(
    "pause: nothing goes on until it is over; what is paused is told",
    "paused",
    ["pause", "exec"],
    async (name) => {
      await backend().apply(quickSpec(name, image, { command: shell(COUNTING) }));
      await counts(name);
      const { pause, unpause } = caps().pause!;
      await pause(name);
      await pause(name);
      assert.equal((await instance(name)).state, "paused");
      assert.equal((await backend().status(name))!.state, "running");
      await assert.rejects(caps().exec!(name, { command: ["true"] }), { code: "conflict" });
      // What was printed before may be on its way.
      let before = -1;
      await eventually("silence", async () => {
        const now = await counted(name);
        const same = now === before;
        before = now;
        return same;
      }, 500);
      await unpause(name);
      await unpause(name);
      assert.equal((await instance(name)).state, "running");
      await counts(name);
      assert.equal((await execute(backend(), name, { command: ["true"] })).code, 0);
      await assert.rejects(pause("nobody"), { code: "not_found" });
      await assert.rejects(pause(name, { instance: `${name}-9` }), { code: "not_found" });
      await backend().power(name, "stop");
      await assert.rejects(pause(name), { code: "conflict" });
    },
  );

  withName(
    "a paused deployment is stopped, started, replaced and deleted as any other",
    "frozen",
    ["pause"],
    async (name) => {
      const spec = (text: string) =>
        quickSpec(name, image, { command: shell(COUNTING), env: { A: text } });
      const { pause } = caps().pause!;
      await backend().apply(spec("1"));
      await pause(name);
      await backend().power(name, "stop");
      assert.equal((await instance(name)).state, "exited");
      await backend().power(name, "start");
      await counts(name);
      await pause(name);
      await under.reopen();
      assert.equal((await instance(name)).state, "paused");
      assert.equal((await backend().apply(spec("2"))).action, "replaced");
      assert.equal((await instance(name)).state, "running");
      await caps().pause!.pause(name);
      assert.equal(await backend().delete(name), true);
      assert.equal(await backend().status(name), undefined);
    },
  );

  withName(
    "a paused instance ends by SIGKILL",
    "killed",
    ["pause", "signal", "spec.restart"],
    async (name) => {
      await backend().apply(quickSpec(name, image, { command: shell(COUNTING), restart: "no" }));
      await caps().pause!.pause(name);
      await caps().signal!(name, "KILL");
      await eventually("an end", async () => (await instance(name)).state === "exited");
    },
  );

  withName("a pause is no illness", "rest", ["pause", "spec.healthcheck.test"], async (name) => {
    const healthcheck = { test: "true", interval: "50ms", timeout: "1s", retries: 1 };
    await backend().apply(quickSpec(name, image, { command: shell(COUNTING), healthcheck }));
    await caps().pause!.pause(name);
    // Longer than a probe may take.
    await new Promise((resolve) => setTimeout(resolve, 2000));
    assert.equal((await instance(name)).state, "paused");
    await caps().pause!.unpause(name);
    await counts(name);
    // An engine that checks by itself may count the probe that it froze.
    await eventually("health", async () => (await instance(name)).state === "healthy");
  });

  withName(
    "top: the processes of each running instance, as ps lists them",
    "top",
    ["top", "spec.replicas"],
    async (name) => {
      await backend().apply(quickSpec(name, image, {
        command: shell("sleep 4321 & exec sleep 1234"),
        replicas: 2,
      }));
      const commands = async (options?: { instance: string }) => {
        const all = await caps().top!(name, options);
        return all.map(({ instance, titles, processes }) => {
          assert.ok(processes.every((row) => row.length === titles.length));
          const at = titles.findIndex((title) => /^(CMD|COMMAND|ARGS)$/.test(title));
          return [instance, ...processes.map((row) => row[at]).sort()];
        });
      };
      const all = [0, 1].map((number) => [`${name}-${number}`, "sleep 1234", "sleep 4321"]);
      // A process that was just made has its maker's name for a moment.
      await eventually("both", async () => `${await commands()}` === `${all}`);
      assert.deepEqual(await commands({ instance: `${name}-1` }), all.slice(1));
      await assert.rejects(caps().top!("nobody"), { code: "not_found" });
      await assert.rejects(caps().top!(name, { instance: `${name}-9` }), { code: "not_found" });
      await backend().power(name, "stop");
      await assert.rejects(caps().top!(name), { code: "conflict" });
    },
  );
}
