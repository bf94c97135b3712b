/**
 * The bare backend's server killed at every step of an apply: before each program that it runs on the host. The
 * next server finds either all of it or nothing, and afterwards nothing is left.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { isDeepStrictEqual as equal } from "node:util";
import { run } from "../../lib/base/process.ts";
import type { DeploySpec } from "../../lib/api/deploy_spec.ts";
import { cniDirs, CniPlugins } from "../../lib/runtime/cni.ts";
import { bridgeNetwork } from "../../lib/runtime/network.ts";
import { requireTools } from "../e2e/harness.ts";
import { freePort } from "../fixtures/free_port.ts";
import { eventually } from "../waits.ts";
import { bareFixture, openBare } from "./bare_fixture.ts";
import { execute, quickSpec } from "./deploy_tools.ts";

const SERVER = join(import.meta.dirname!, "bare_crash_server.ts");
const CONFIG = join(import.meta.dirname!, "../../deno.json");

/** What the server runs, and its runtime. */
const PROGRAMS = ["conmon", "unshare", "umount", "iptables-save", "iptables-restore", "ip", "cp"];
const PLUGINS = ["bridge", "host-local", "loopback"];

/** Counts the calls of all programs, and kills the server at the chosen one, which it does not do then. */
const step = (folder: string, program: string) =>
  `#!/bin/sh
n=1
while ! mkdir ${folder}/$n 2>/dev/null; do n=$((n + 1)); done
[ $n != "$(cat ${folder}/stop)" ] || { kill -9 "$(cat ${folder}/pid)"; exit 1; }
exec ${program} "$@"
`;

async function writeSteps(folder: string): Promise<void> {
  await Deno.mkdir(folder);
  const plugins = new CniPlugins(cniDirs());
  const found = async (name: string) =>
    (await run("sh", ["-c", `command -v ${name}`])).stdout.trim() || `/usr/sbin/${name}`;
  for (const name of [...PROGRAMS, "runc"]) {
    await Deno.writeTextFile(join(folder, name), step(folder, await found(name)), { mode: 0o755 });
  }
  for (const name of PLUGINS) {
    const path = await plugins.find(name);
    await Deno.writeTextFile(join(folder, name), step(folder, path), { mode: 0o755 });
  }
}

/** Forgets the steps of the last run. */
async function reset(folder: string, stop: number): Promise<void> {
  for await (const { name } of Deno.readDir(folder)) {
    if (/^\d+$/.test(name)) await Deno.remove(join(folder, name));
  }
  await Deno.writeTextFile(join(folder, "stop"), String(stop));
}

/** True while a program that the server had started is at work; monitors have left its session. */
async function busy(session: number): Promise<boolean> {
  return (await run("ps", ["-o", "pid=", "--sid", String(session)])).stdout.trim() !== "";
}

const names = async (folder: string) =>
  (await Array.fromAsync(Deno.readDir(folder)).catch(() => [])).map(({ name }) => name);

Deno.test({
  name: "bare backend, killed at every step of an apply",
  ...requireTools({ root: true, commands: ["runc", "conmon", "iptables", "busybox", "setsid"] }),
  sanitizeOps: false,
  sanitizeResources: false,
  fn: async (t) => {
    await using fixture = await bareFixture();
    const { dataDir, subnetBase, image } = fixture;
    const bare = (...parts: string[]) => join(dataDir, "bare", ...parts);
    const steps = join(dataDir, "steps");
    await writeSteps(steps);

    /** Lets a server of its own apply the spec; false where it was killed. */
    const applies = async (spec: DeploySpec, stop: number): Promise<boolean> => {
      await reset(steps, stop);
      const config = { runtime: join(steps, "runc"), cniBinDir: steps };
      const args = JSON.stringify({ host: { dataDir, subnetBase }, config, spec });
      const script = `echo $$ > ${steps}/pid; exec "$@"`;
      const deno = [Deno.execPath(), "run", "-A", "-q", "--config", CONFIG, SERVER, args];
      const child = new Deno.Command("setsid", {
        args: ["--wait", "sh", "-c", script, "sh", ...deno],
        env: { PATH: `${steps}:${Deno.env.get("PATH")}:/usr/sbin:/sbin` },
        stdin: "null",
        stdout: "inherit",
        stderr: "inherit",
      }).spawn();
      const { code } = await child.status;
      const session = Number(await Deno.readTextFile(join(steps, "pid")));
      await eventually("all of it has ended", async () => !await busy(session));
      assert.ok(code === 0 || code === 137, `exit code ${code}`);
      return code === 0;
    };

    const monitors = async () =>
      (await run("ps", ["-eo", "args="])).stdout.split("\n")
        .filter((line) => /^\S*conmon /.test(line) && line.includes(bare("instances")));
    const bridge = bridgeNetwork(subnetBase, 0);
    /** What there is of containers on this host. */
    const found = async () => ({
      instances: (await names(bare("instances"))).length,
      records: (await names(bare("deployments"))).length,
      logs: (await names(bare("logs"))).length,
      namespaces: [...await names(bare("netns")), ...await names(bare("spares"))].length,
      leases: (await names(join(dataDir, "run/leases", bridge.name)))
        .filter((name) => /^\d/.test(name)).length,
      ports: (await names(`/sys/class/net/${bridge.bridge}/brif`)).length,
      monitors: (await monitors()).length,
    });
    const each = (count: number) => ({
      ...{ instances: count, records: count, logs: count, namespaces: count },
      ...{ leases: count, ports: count, monitors: count },
    });
    const port = freePort();
    const spec = (version: string) =>
      quickSpec("web", image, { env: { VERSION: version }, ports: [`127.0.0.1:${port}:8080`] });
    const answer = () =>
      fetch(`http://127.0.0.1:${port}/`).then((answer) => answer.text(), () => "");

    /** The version that the next server finds, or none. Everything of it is there, and nothing else. */
    const check = async (): Promise<string | undefined> => {
      await using backend = await openBare(fixture);
      const status = await backend.status("web");
      // Namespaces and ports of removed instances go at the kernel's pace.
      const expected = each(status ? 1 : 0);
      await eventually("nothing more", async () => equal(await found(), expected)).catch(async () =>
        assert.deepEqual(await found(), expected)
      );
      if (!status) return undefined;
      assert.equal(status.state, "running");
      await eventually("an answer", async () => await answer() === "hello from busybox\n");
      const command = ["sh", "-c", "echo $VERSION"];
      const version = (await execute(backend, "web", { command })).stdout.trim();
      assert.equal(version, (await backend.spec("web"))!.env.VERSION);
      return version;
    };

    for (const title of ["a first deployment", "a replacement"]) {
      await t.step(title, async () => {
        let stop = 0;
        for (let before = await check(), whole = false; !whole;) {
          const version = `${title.replaceAll(" ", "-")}-${++stop}`;
          whole = await applies(spec(version), stop);
          try {
            const now = await check();
            assert.ok(now === version || !whole && now === before, `${now} after ${before}`);
            // One that was made whole before its server was killed makes the next one a replacement.
            if (before === undefined && now !== undefined && !whole) break;
            before = now;
          } catch (error) {
            throw new Error(`killed at step ${stop}`, { cause: error });
          }
        }
        assert.ok(stop > 5, `only ${stop} steps`);
      });
    }
    const backend = await openBare(fixture);
    await backend.delete("web");
    await backend[Symbol.asyncDispose]();
    await eventually("nothing is left", async () => equal(await found(), each(0)));
  },
});
