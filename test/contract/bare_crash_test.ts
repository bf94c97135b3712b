/** The bare backend's server, killed before each program that is run for it and at each change of a file. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { run } from "../../lib/base/process.ts";
import { cniDirs, CniPlugins } from "../../lib/runtime/cni.ts";
import { requireTools } from "../e2e/harness.ts";
import { eventually } from "../waits.ts";
import { bareFixture, openBare } from "./bare_fixture.ts";
import { type Act, deployCrash, ownSteps, serverCommand, type Steps } from "./crash_deploy.ts";
import { hostFound } from "./host_fixture.ts";

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

/** Steps in programs that the server starts, and that these start. */
function programSteps(folder: string, place: Record<string, unknown>): Steps {
  const config = { runtime: join(folder, "runc"), cniBinDir: folder };
  return {
    name: "programs",
    async run(what: Act, stop: number) {
      await reset(folder, stop);
      const script = `echo $$ > ${folder}/pid; exec "$@"`;
      const server = serverCommand("bare", { ...place, config }, what);
      const { code } = await new Deno.Command("setsid", {
        args: ["--wait", "sh", "-c", script, "sh", ...server],
        env: { PATH: `${folder}:${Deno.env.get("PATH")}:/usr/sbin:/sbin` },
        stdin: "null",
        stdout: "inherit",
        stderr: "inherit",
      }).spawn().status;
      const session = Number(await Deno.readTextFile(join(folder, "pid")));
      await eventually("all of it has ended", async () => !await busy(session));
      assert.ok(code === 0 || code === 137, `exit code ${code}`);
      return code === 0;
    },
  };
}

Deno.test({
  name: "bare backend, killed at every step",
  ...requireTools({ root: true, commands: ["runc", "conmon", "iptables", "busybox", "setsid"] }),
  sanitizeOps: false,
  sanitizeResources: false,
  fn: async (t) => {
    await using fixture = await bareFixture();
    const { dataDir, subnetBase, image } = fixture;
    const steps = join(dataDir, "steps");
    await writeSteps(steps);
    const place = { host: { dataDir, subnetBase } };
    const instances = join(dataDir, "bare/instances");
    const monitors = async () =>
      (await run("ps", ["-eo", "args="])).stdout.split("\n")
        .filter((line) => /^\S*conmon /.test(line) && line.includes(instances));
    const host = hostFound(fixture);
    await deployCrash(t, {
      image,
      open: () => openBare(fixture),
      steps: [programSteps(steps, place), ownSteps("bare", place)],
      found: async () => ({ ...await host.found(), monitors: (await monitors()).length }),
      expected: (made, running) => ({ ...host.expected(made), monitors: running }),
    });
  },
});
