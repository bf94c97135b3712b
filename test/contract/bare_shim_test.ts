/** SVC_BARE_SHIM: what happens to workloads of the bare backend while no server runs. */
import assert from "node:assert/strict";
import { join } from "node:path";
import type { DeployBackend } from "../../lib/deploy/backend.ts";
import type { DeploymentRecord } from "../../lib/deploy/host/record.ts";
import { requireTools } from "../e2e/harness.ts";
import { freePort } from "../fixtures/free_port.ts";
import { eventually } from "../waits.ts";
import { bareFixture } from "./bare_fixture.ts";
import { lines, quickSpec, shell } from "./deploy_tools.ts";

const MAIN = join(import.meta.dirname!, "../../main.ts");
const CONFIG = join(import.meta.dirname!, "../../deno.json");

/** This program from its sources, as a server passes it on. */
const SHIM = [Deno.execPath(), "run", "-A", "-q", "--config", CONFIG, MAIN, "keep", "bare"];

/** Processes whose command line names all of the texts. */
async function processes(...texts: string[]): Promise<string[]> {
  const found: string[] = [];
  for await (const { name } of Deno.readDir("/proc")) {
    if (!/^\d+$/.test(name) || Number(name) === Deno.pid) continue;
    const words = await Deno.readTextFile(`/proc/${name}/cmdline`).catch(() => "");
    if (texts.every((text) => words.includes(text))) found.push(words.replaceAll("\0", " "));
  }
  return found;
}

const alive = (pid: number) => Deno.stat(`/proc/${pid}`).then(() => true, () => false);

Deno.test({
  name: "bare backend with shims",
  ...requireTools({ root: true, commands: ["runc", "conmon", "flock", "iptables", "busybox"] }),
  sanitizeOps: false,
  sanitizeResources: false,
  fn: async (t) => {
    await using fixture = await bareFixture({ shim: SHIM });
    let backend: DeployBackend = await fixture.open([]);
    const record = async (name: string): Promise<DeploymentRecord> =>
      JSON.parse(
        await Deno.readTextFile(join(fixture.dataDir, "bare/deployments", `${name}.json`)),
      );
    const pidOf = async (name: string) => (await record(name)).instances[0].process?.pid;
    const status = async (name: string) => (await backend.status(name))!;
    /** What `while there is no server` does; the next server takes over. */
    const without = async (work: () => Promise<void>) => {
      await backend[Symbol.asyncDispose]();
      try {
        await work();
      } finally {
        backend = await fixture.open([]);
      }
    };
    const step = (title: string, name: string, work: (name: string) => Promise<void>) =>
      t.step(title, async () => {
        try {
          await work(name);
        } finally {
          await backend.delete(name);
        }
        await eventually(
          "no shim is left",
          async () => (await processes(fixture.dataDir, `${name}-0-`)).length === 0,
        );
      });
    try {
      await step(
        "one that is killed is back: its port, its log, its limits",
        "web",
        async (name) => {
          const port = freePort();
          const answers = async () =>
            await fetch(`http://127.0.0.1:${port}/`).then((answer) => answer.text(), () => "") ===
              "hello from busybox\n";
          await backend.apply(quickSpec(name, fixture.image, {
            ports: [`127.0.0.1:${port}:8080`],
            command: shell("echo begun; exec httpd -f -p 8080 -h /srv"),
          }));
          await eventually("an answer", answers);
          let second: number | undefined;
          await without(async () => {
            const first = (await pidOf(name))!;
            Deno.kill(first, "SIGKILL");
            await eventually("back", async () => {
              second = await pidOf(name);
              return second !== undefined && second !== first;
            });
            await eventually("an answer", answers);
            const groups = await Deno.readTextFile(`/proc/${second}/cgroup`);
            assert.match(groups, new RegExp(`/svc/${name}-0-`), "in its own cgroup");
          });
          const { instances: [{ pid, restarts, state }] } = await status(name);
          assert.deepEqual([pid, restarts, state], [second, 1, "running"]);
          await eventually(
            "its log",
            async () => (await lines(backend, name)).join() === "begun,begun",
          );
          // While a server runs, it is the one that restarts.
          Deno.kill(pid!, "SIGKILL");
          await eventually("back", async () => (await status(name)).instances[0].restarts === 2);
        },
      );

      await step(
        "its policy counts the attempts, and waits longer each time",
        "fails",
        async (name) => {
          // Ends once it is told so, and from then on at once.
          const script = "while [ ! -e /tmp/end ]; do sleep 0.05; done; date +%s; exit 3";
          await backend.apply(quickSpec(name, fixture.image, {
            command: shell(script),
            restart: "on-failure",
            restartMaxAttempts: 3,
          }));
          await without(async () => {
            await Deno.writeTextFile(`/proc/${await pidOf(name)}/root/tmp/end`, "");
            await eventually("given up", async () => {
              const [{ restarts, due, exitCode }] = (await record(name)).instances;
              return restarts === 3 && due === undefined && exitCode === 3;
            });
          });
          const { state, instances: [one] } = await status(name);
          assert.deepEqual([state, one.restarts, one.exitCode], ["failed", 3, 3]);
          assert.equal((await lines(backend, name)).length, 4);
        },
      );

      await step("what was stopped stays stopped, what is to end ends", "rests", async (name) => {
        await backend.apply(quickSpec(name, fixture.image));
        await backend.power(name, "stop");
        const ended = `${name}-ended`;
        await backend.apply(quickSpec(ended, fixture.image, { restart: "no" }));
        try {
          await without(async () => {
            Deno.kill((await pidOf(ended))!, "SIGKILL");
            await eventually(
              "it is on record",
              async () => (await record(ended)).instances[0].exitCode === 137,
            );
            await eventually(
              "no shim",
              async () => (await processes(fixture.dataDir, `${name}-`)).length === 0,
            );
          });
          assert.equal((await status(name)).state, "stopped");
          assert.equal((await status(ended)).state, "failed");
        } finally {
          await backend.delete(ended);
        }
      });

      await step(
        "a server that starts meanwhile finds one, and never two",
        "races",
        async (name) => {
          await backend.apply(quickSpec(name, fixture.image));
          for (const ms of [0, 150, 400, 800, 1200]) {
            let before = 0;
            await without(async () => {
              before = (await status(name)).instances[0].pid!;
              Deno.kill(before, "SIGKILL");
              // Another moment of the restart each time: whichever it is, the outcome is the same.
              await new Promise((resolve) => setTimeout(resolve, ms));
            });
            // One that is being killed may be taken for running still.
            await eventually("running", async () => {
              const [{ pid }] = (await status(name)).instances;
              return pid !== undefined && pid !== before;
            });
            const { instances: [{ pid }] } = await status(name);
            assert.ok(await alive(pid!));
            const key = (await record(name)).instances[0].key;
            const monitors = async () =>
              (await processes(key)).filter((words) => /^\S*conmon /.test(words)).length;
            await eventually("one monitor", async () => await monitors() === 1);
            assert.ok((await status(name)).instances[0].pid === pid, "it is the same still");
          }
        },
      );
    } finally {
      await backend[Symbol.asyncDispose]();
    }
  },
});
