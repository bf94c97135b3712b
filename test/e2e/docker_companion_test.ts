/** SVC_DOCKER_REMOTE: a companion beside each instance, and what goes through it. */
import assert from "node:assert/strict";
import { join } from "node:path";
import type { DeploymentStatus } from "../../lib/api/deployment.ts";
import { busyboxArchive } from "../peers/base_image.ts";
import { type DockerdPeer, startDockerd } from "../peers/dockerd.ts";
import { eventually } from "../waits.ts";
import { ok } from "./commands.ts";
import { answer, sshFiles, startAgent, webSpec as spec, withoutAgent } from "./companions.ts";
import { e2eTest, EXECUTABLE, freePort, startServer, svc } from "./harness.ts";

const NEEDS = {
  root: true,
  files: [EXECUTABLE],
  commands: ["dockerd", "docker", "busybox", "unshare", "nsenter", "ip", "iptables", "runc"],
};

/** The workload's image: busybox, and the SSH client of this machine with its libraries. */
async function makeImage(daemon: DockerdPeer, folder: string): Promise<void> {
  await busyboxArchive(join(folder, "root.tar"));
  await daemon.docker("import", join(folder, "root.tar"), "base:1");
  const context = join(folder, "context");
  for (const path of await sshFiles()) {
    await Deno.mkdir(join(context, path, ".."), { recursive: true });
    await Deno.copyFile(path, join(context, path));
  }
  await Deno.writeTextFile(join(context, "Dockerfile"), "FROM base:1\nCOPY . /\n");
  await daemon.docker("build", "-t", "app:1", context);
}

e2eTest(
  "docker companions: made, followed, replaced and removed with their instances",
  NEEDS,
  async (t) => {
    const folder = await Deno.makeTempDir({ prefix: "svc-e2e-companion-" });
    try {
      await using daemon = await startDockerd(join(folder, "daemon"), { network: "own" });
      await makeImage(daemon, folder);
      const archive = join(folder, "agent.tar");
      const made = await svc(["image", "agent", `docker-archive:${archive}:svc-agent:1`]);
      assert.equal(made.code, 0, made.stderr);
      await daemon.docker("load", "-i", archive);
      using _network = daemon.enter();
      const common = {
        SVC_DEPLOY_BACKEND: "",
        DOCKER_HOST: daemon.host,
        SVC_DOCKER_REMOTE: "1",
      };
      const containers = async () =>
        (await daemon.docker("ps", "-a", "--format", "{{.Names}}")).stdout.trim().split("\n")
          .filter(Boolean).sort();

      await t.step(
        "without what they need nothing is made, and the variables are named",
        async () => {
          await using server = await startServer({ env: common });
          const { code, stderr } = await server.svc(["deploy", "-f", "-"], { stdin: spec("1") });
          assert.equal(code, 1);
          assert.match(stderr, /Cannot deploy web: .*SVC_AGENT_IMAGE and SVC_ADVERTISE_URL/);
          assert.deepEqual(await containers(), []);
        },
      );

      const port = freePort();
      await using server = await startServer({
        listen: "0.0.0.0",
        port,
        env: {
          ...common,
          SVC_AGENT_IMAGE: "svc-agent:1",
          SVC_ADVERTISE_URL: `http://172.17.0.1:${port}`,
        },
      });
      await t.step("a port that only the companion reaches", async () => {
        await ok(server, ["deploy", "-f", "-"], { stdin: spec("1") });
        const [web, companion, ...more] = await containers();
        assert.deepEqual(more, []);
        assert.equal(companion, `${web}-companion`);
        assert.equal(await answer(server), "1");
        const status: DeploymentStatus = JSON.parse(await ok(server, ["ps", "--output", "json"]));
        assert.equal(status.instances[0].companion, "attached");
      });

      await t.step("it follows a restart that svc was not asked for", async () => {
        const [web] = await containers();
        await daemon.docker("restart", "-t", "0", web);
        assert.equal(await answer(server), "1");
        await ok(server, ["restart", "web"]);
        assert.equal(await answer(server), "1");
      });

      await t.step("the caller's SSH agent, for one command", async () => {
        await using agent = await startAgent(folder);
        const env = { SSH_AUTH_SOCK: agent.path };
        const inside = ["exec", "--forward-agent", "web", "sh", "-c"];
        const listed = await ok(server, [...inside, "ssh-add -l; ls -d $SSH_AUTH_SOCK"], { env });
        assert.match(listed, /callers-key/);
        const socket = listed.trim().split("\n").at(-1)!;
        assert.match(socket, /^\/run\/svc\/agents\/[0-9a-f]{32}\/agent$/);
        await withoutAgent(server, "/run/svc/agents");
        const inspected = await daemon.docker("inspect", ...await containers());
        assert.ok(!inspected.stdout.includes(agent.key));
      });

      await t.step("a killed server: the companion attaches to the next one", async () => {
        await server.kill9();
        await server.restart();
        assert.equal(await answer(server), "1");
      });

      await t.step("replaced with its instance, and removed with it", async () => {
        const before = await containers();
        await ok(server, ["deploy", "-f", "-"], { stdin: spec("2") });
        await eventually("two new ones are there", async () => {
          const after = await containers();
          return after.length === 2 && after.every((name) => !before.includes(name));
        });
        assert.equal(await answer(server), "2");
        await ok(server, ["rm", "web"]);
        await eventually("nothing is left", async () => {
          const volumes = (await daemon.docker("volume", "ls", "-q")).stdout.trim();
          return (await containers()).length === 0 && volumes === "";
        });
      });
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
);
