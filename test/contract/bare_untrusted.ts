/** What a workload leaves in its own files, and makes of folders that it may write to, is nobody else's trouble. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { eventually } from "../waits.ts";
import type { OwnTest } from "./deploy_suite.ts";
import type { HostUnderTest } from "./host_backend.ts";
import { execute, quickSpec } from "./deploy_tools.ts";

/** Processes of the runtime in that deployment's cgroups that have not become the container's command. */
async function stuckIn(deployment: string): Promise<number> {
  let count = 0;
  for await (const { name } of Deno.readDir("/proc")) {
    const [command, cgroups] = await Promise.all(
      ["cmdline", "cgroup"].map((file) =>
        Deno.readTextFile(`/proc/${name}/${file}`).catch(() => "")
      ),
    );
    const theirs = cgroups.includes(`/svc/${deployment}-0-`);
    if (theirs && /^[^\0]*runc\0init/.test(command)) count++;
  }
  return count;
}

export function bareUntrusted(
  test: OwnTest,
  under: HostUnderTest,
): void {
  const { backend, image, dataDir, allowed } = under;
  const withName = (title: string, name: string, fn: (name: string) => Promise<void>) =>
    test(title, async () => {
      try {
        await fn(name);
      } finally {
        await backend().delete(name);
      }
    });

  withName(
    "a bind source that has become a link leads nowhere else at the next start",
    "swapped",
    async (name) => {
      const [source, secret] = [join(allowed, "data"), join(dataDir, "secret")];
      await Deno.mkdir(source);
      await Deno.mkdir(secret);
      await Deno.writeTextFile(join(source, "file"), "own\n");
      await Deno.writeTextFile(join(secret, "file"), "secret\n");
      await backend().apply(quickSpec(name, image, {
        mounts: [{ source, target: "/mnt" }, { source: join(source, "file"), target: "/f" }],
      }));
      const see = async () =>
        (await execute(backend(), name, { command: ["cat", "/mnt/file", "/f"] })).stdout;
      assert.equal(await see(), "own\nown\n");
      const places = join(dataDir, "run");
      const left = async () => (await Deno.readTextFile("/proc/self/mountinfo")).includes(places);
      // containerd's restart monitor needs them as long as the container is there: what was opened, not the path.
      const kept = under.engine === "containerd";
      assert.equal(await left(), kept, "no mount stays behind");
      await Deno.rename(source, `${source}.was`);
      await Deno.symlink(secret, source);
      for (const again of ["restart", "start"] as const) {
        await assert.rejects(backend().power(name, again), { code: "denied" });
      }
      // What another process of the server finds is the same.
      await under.reopen();
      await assert.rejects(backend().power(name, "start"), { code: "denied" });
      await Deno.remove(source);
      await Deno.rename(`${source}.was`, source);
      await backend().power(name, "start");
      assert.equal(await see(), "own\nown\n");
      assert.equal(await left(), kept);
    },
  );

  withName("a passwd that nobody comes to the end of holds nothing up", "endless", async (name) => {
    await backend().apply(quickSpec(name, image, {
      healthcheck: { test: "true", interval: "500ms", timeout: "1s" },
    }));
    const stuck = () => stuckIn(name);
    const before = await stuck();
    const { code } = await execute(backend(), name, {
      command: ["sh", "-c", "rm -f /etc/passwd; busybox mkfifo /etc/passwd"],
    });
    assert.equal(code, 0);
    await assert.rejects(execute(backend(), name, { command: ["true"], user: "web" }), {
      code: "argument_invalid",
      message: /passwd: it is a FIFO/,
    });
    await assert.rejects(execute(backend(), name, { command: ["true"] }), { code: "timeout" });
    const session = await backend().caps.exec!(name, { command: ["true"] });
    await session.kill("SIGKILL");
    await session.exit;
    const left = (count: number) => async () => await stuck() <= count;
    await eventually("nothing waits but a probe that is under way", left(before + 1));
    await assert.rejects(backend().power(name, "restart"), { code: "timeout" });
    await backend().delete(name);
    // A probe may have been under way before.
    await eventually("nothing waits", left(before));
  });
}
