/** `svc deploy --session --mount` with Docker and podman on the server's host. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { busyboxArchive } from "../peers/base_image.ts";
import { startDockerd } from "../peers/dockerd.ts";
import { PODMAN_COMMANDS, PODMAN_FILES, startPodman } from "../peers/podman.ts";
import { eventually } from "../waits.ts";
import { ok } from "./commands.ts";
import { e2eTest, type RunOutput, runTool, startServer } from "./harness.ts";
import { Client } from "./session_client.ts";

interface Engine extends AsyncDisposable {
  env: Record<string, string>;
  command(...args: string[]): Promise<RunOutput>;
}

const ENGINES = {
  docker: {
    needs: { commands: ["dockerd", "docker", "busybox", "unshare", "nsenter", "runc"] },
    async start(folder: string): Promise<Engine> {
      const daemon = await startDockerd(folder);
      return {
        env: { SVC_DEPLOY_BACKEND: "", DOCKER_HOST: daemon.host },
        command: daemon.docker,
        [Symbol.asyncDispose]: () => daemon[Symbol.asyncDispose](),
      };
    },
  },
  podman: {
    needs: { commands: PODMAN_COMMANDS, files: PODMAN_FILES },
    async start(): Promise<Engine> {
      const podman = await startPodman();
      return {
        env: { SVC_DEPLOY_BACKEND: "podman", SVC_PODMAN_SOCKET: podman.socket },
        command: podman.podman,
        [Symbol.asyncDispose]: () => podman[Symbol.asyncDispose](),
      };
    },
  },
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

const unmounted = (server: { dataDir: string }) =>
  eventually("nothing is mounted", async () => (await mounted(server)).length === 0);

/** In what is given to `test`, folders of the caller and one whose mounts the engines see. */
async function withFolders(test: (folder: string, shared: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-e2e-mounts-" });
  const shared = join(folder, "shared");
  for (const name of ["shared", "private", "data", "fixed"]) await Deno.mkdir(join(folder, name));
  await Deno.writeTextFile(join(folder, "data/one"), "from the caller\n");
  await Deno.writeTextFile(join(folder, "fixed/two"), "fixed\n");
  await Deno.writeTextFile(join(folder, "spec.json"), JSON.stringify(SPEC));
  // As on a host of systemd's: what is mounted here reaches the engine's mounts.
  await runTool("mount", ["--bind", shared, shared]);
  await runTool("mount", ["--make-shared", shared]);
  try {
    await test(folder, shared);
  } finally {
    await runTool("umount", ["-l", shared]);
    await Deno.remove(folder, { recursive: true });
  }
}

for (const [name, { needs, start }] of Object.entries(ENGINES)) {
  e2eTest(
    `${name}: deploy --mount`,
    { root: true, ...needs },
    (t) =>
      withFolders(async (folder, shared) => {
        await using engine = await start(join(folder, "engine"));
        const { env, command } = engine;
        await busyboxArchive(join(folder, "root.tar"));
        await command("import", join(folder, "root.tar"), "base:1");
        const args = [
          ...["-f", join(folder, "spec.json"), "--mount", `${folder}/data:/data`],
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
          await unmounted(server);
        });

        await t.step("a daemon that does not see the server's mounts refuses", async () => {
          await using server = await startServer({ env, dataDir: join(folder, "private") });
          await using client = new Client(server, args);
          assert.notEqual((await client.ended).code, 0, client.all);
          assert.match(client.all, /mounts\/app\/[01]\/tree/);
          await eventually(
            "nothing is left",
            async () => (await command("ps", "-aq")).stdout === "",
          );
          await unmounted(server);
        });
      }),
  );
}
