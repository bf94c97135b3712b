/** `svc deploy --session --mount` with a Docker daemon on the server's host. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { busyboxArchive } from "../peers/base_image.ts";
import { startDockerd } from "../peers/dockerd.ts";
import { e2eTest, runTool, startServer } from "./harness.ts";
import { Client } from "./session_client.ts";
import { ok } from "./waits.ts";

const NEEDS = {
  root: true,
  commands: ["dockerd", "docker", "busybox", "unshare", "nsenter", "mount", "umount", "runc"],
};

const SPEC = {
  name: "app",
  image: "base:1",
  command: ["sh", "-c", "echo serving; exec sleep 100000"],
  stopSignal: "SIGKILL",
};

/** What is mounted below the server's folder for mounts. */
async function mounted({ dataDir }: { dataDir: string }): Promise<string[]> {
  const text = await Deno.readTextFile("/proc/self/mountinfo");
  return text.split("\n").filter((line) => line.includes(`${dataDir}/mounts/`));
}

e2eTest("deploy --mount: a workload of a Docker daemon of this host", NEEDS, async (t) => {
  const folder = await Deno.makeTempDir({ prefix: "svc-e2e-docker-" });
  const shared = join(folder, "shared");
  for (const name of ["shared", "private", "data", "fixed"]) await Deno.mkdir(join(folder, name));
  // As on a host of systemd's: what is mounted here reaches the daemon's mounts.
  await runTool("mount", ["--bind", shared, shared]);
  await runTool("mount", ["--make-shared", shared]);
  try {
    await using daemon = await startDockerd(join(folder, "daemon"));
    await busyboxArchive(join(folder, "root.tar"));
    await daemon.docker("import", join(folder, "root.tar"), "base:1");
    await Deno.writeTextFile(join(folder, "data/one"), "from the caller\n");
    await Deno.writeTextFile(join(folder, "fixed/two"), "fixed\n");
    const spec = join(folder, "spec.json");
    await Deno.writeTextFile(spec, JSON.stringify(SPEC));
    const env = { SVC_DEPLOY_BACKEND: "", DOCKER_HOST: daemon.host };
    const args = [
      ...["-f", spec, "--mount", `${folder}/data:/data`],
      ...["--mount", `${folder}/fixed/two:/etc/two:ro`],
    ];

    await t.step("a folder and a read-only file, in place", async () => {
      await using server = await startServer({ env, dataDir: join(shared, "server") });
      await using client = new Client(server, args);
      await client.wrote(/^serving$/m);
      const script =
        "cat /data/one /etc/two; echo inside > /data/new; (echo x > /etc/two) 2>&1 || true";
      assert.match(
        await ok(server, ["exec", "app", "sh", "-c", script]),
        /^from the caller\nfixed\n.*Read-only/,
      );
      assert.equal(await Deno.readTextFile(join(folder, "data/new")), "inside\n");
      assert.equal((await mounted(server)).length, 2);
      client.kill("SIGINT");
      assert.equal((await client.ended).code, 0, client.all);
      assert.deepEqual(await mounted(server), []);
    });

    await t.step("a daemon that does not see the server's mounts refuses", async () => {
      await using server = await startServer({ env, dataDir: join(folder, "private") });
      await using client = new Client(server, args);
      assert.notEqual((await client.ended).code, 0, client.all);
      assert.match(client.all, /mounts\/app\/0\/tree/);
      assert.equal(await daemon.docker("ps", "-aq").then(({ stdout }) => stdout), "");
      assert.deepEqual(await mounted(server), []);
    });
  } finally {
    await runTool("umount", ["-l", shared]);
    await Deno.remove(folder, { recursive: true });
  }
});
