/** SVC_PODMAN_REMOTE: a rootless podman's workloads are reached by their companions, and by nothing else. */
import assert from "node:assert/strict";
import { join } from "node:path";
import type { DeploymentStatus } from "../../lib/api/deployment.ts";
import { busyboxArchive } from "../peers/base_image.ts";
import { PODMAN_COMMANDS, PODMAN_FILES, startPodman } from "../peers/podman.ts";
import { eventually } from "../waits.ts";
import { ok } from "./commands.ts";
import { answer, webSpec } from "./companions.ts";
import { e2eTest, EXECUTABLE, freePort, startServer, svc } from "./harness.ts";

/** The address of the host that podman's networks go out by. */
const OUT = "198.18.0.1";

e2eTest(
  "podman companions: a rootless podman's port is forwarded",
  { root: true, commands: PODMAN_COMMANDS, files: [EXECUTABLE, ...PODMAN_FILES] },
  async (t) => {
    const folder = await Deno.makeTempDir({ prefix: "svc-e2e-companion-" });
    try {
      await Deno.chmod(folder, 0o755);
      await using peer = await startPodman({ rootless: true });
      const [root, agent] = ["root.tar", "agent.tar"].map((name) => join(folder, name));
      await busyboxArchive(root);
      const made = await svc(["image", "agent", `docker-archive:${agent}:svc-agent:1`]);
      assert.equal(made.code, 0, made.stderr);
      for (const file of [root, agent]) await Deno.chmod(file, 0o644);
      await peer.podman("import", root, "app:1");
      await peer.podman("load", "-i", agent);
      using _network = peer.enter();
      const env = { SVC_DEPLOY_BACKEND: "podman", SVC_PODMAN_SOCKET: peer.socket };
      const containers = async () =>
        (await peer.podman("ps", "-a", "--format", "{{.Names}}")).stdout.trim().split("\n")
          .filter(Boolean).sort();

      await t.step(
        "without a companion the forward is refused, and the variable is named",
        async () => {
          await using server = await startServer({ env });
          await ok(server, ["deploy", "-f", "-"], { stdin: webSpec("1") });
          const local = freePort();
          const forward = new Deno.Command(EXECUTABLE, {
            args: ["port-forward", "--server", server.url, "web", `${local}:8080`],
            stdout: "null",
            stderr: "piped",
          }).spawn();
          let told = "";
          const reading = (async () => {
            for await (const text of forward.stderr.pipeThrough(new TextDecoderStream())) {
              told += text;
            }
          })();
          await eventually("the connection is broken off, and the reason told", async () => {
            const connection = await Deno.connect({ port: local });
            const end = await connection.read(new Uint8Array(1)).catch(() => null);
            connection.close();
            return end === null && /rootless podman[^]*SVC_PODMAN_REMOTE/.test(told);
          });
          forward.kill();
          await Promise.all([forward.status, reading]);
          await ok(server, ["rm", "web"]);
        },
      );

      const port = freePort();
      await using server = await startServer({
        listen: "0.0.0.0",
        port,
        env: {
          ...env,
          SVC_PODMAN_REMOTE: "1",
          SVC_AGENT_IMAGE: "localhost/svc-agent:1",
          SVC_ADVERTISE_URL: `http://${OUT}:${port}`,
        },
      });

      await t.step("a port that only the companion reaches", async () => {
        await ok(server, ["deploy", "-f", "-"], { stdin: webSpec("1") });
        const [web, companion, ...more] = await containers();
        assert.deepEqual(more, []);
        assert.equal(companion, `${web}-companion`);
        assert.equal(await answer(server), "1");
        const status: DeploymentStatus = JSON.parse(await ok(server, ["ps", "--output", "json"]));
        assert.equal(status.instances[0].companion, "attached");
      });

      await t.step("it follows a restart, and a killed server", async () => {
        await ok(server, ["restart", "web"]);
        assert.equal(await answer(server), "1");
        await server.kill9();
        await server.restart();
        assert.equal(await answer(server), "1");
      });

      await t.step("replaced with its instance, and removed with it", async () => {
        await ok(server, ["deploy", "-f", "-"], { stdin: webSpec("2") });
        await eventually("two are there", async () => (await containers()).length === 2);
        assert.equal(await answer(server), "2");
        await ok(server, ["rm", "web"]);
        await eventually("nothing is left", async () => {
          const volumes = (await peer.podman("volume", "ls", "-q")).stdout.trim();
          return (await containers()).length === 0 && volumes === "";
        });
      });
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
);
