/** SVC_INCUS_REMOTE: a companion beside each instance, and what goes through it. */
import assert from "node:assert/strict";
import type { DeploymentStatus } from "../../lib/api/deployment.ts";
import { INCUS_NEEDS, startIncus } from "../peers/incus.ts";
import { eventually } from "../waits.ts";
import { ok } from "./commands.ts";
import { answer, sshFiles, startAgent, webSpec as spec, withoutAgent } from "./companions.ts";
import { baseImage, e2eTest, EXECUTABLE, freePort, runTool, startServer } from "./harness.ts";

/** An address of the daemon's host that instances reach. */
const ADDRESS = "192.0.2.1";

e2eTest(
  "incus companions: made, followed, replaced and removed with their instances",
  { ...INCUS_NEEDS, files: [...INCUS_NEEDS.files, EXECUTABLE] },
  async (t) => {
    const folder = await Deno.makeTempDir({ prefix: "svc-e2e-companion-" });
    try {
      await using peer = await startIncus();
      using _network = peer.enter();
      await runTool("ip", ["addr", "add", `${ADDRESS}/32`, "dev", "lo"]);
      const port = freePort();
      await peer.trust(`localhost:${port}`);
      const common = {
        SVC_DEPLOY_BACKEND: "incus",
        SVC_INCUS_SOCKET: peer.socket,
        SVC_INCUS_REMOTE: "1",
      };
      const names = async (...command: string[]) =>
        (await peer.incus(...command, "--format", "csv", "-c", "n")).stdout.trim().split("\n")
          .filter(Boolean).sort();
      const instances = () => names("list");
      const ssh = await sshFiles();

      await t.step(
        "without what they need nothing is made, and the variables are named",
        async () => {
          await using server = await startServer({ env: common });
          const { code, stderr } = await server.svc(["deploy", "-f", "-"], { stdin: spec("1") });
          assert.equal(code, 1);
          assert.match(stderr, /Cannot deploy web: .*SVC_AGENT_IMAGE and SVC_ADVERTISE_URL/);
          assert.deepEqual(await instances(), []);
        },
      );

      await using server = await startServer({
        listen: "0.0.0.0",
        port,
        env: {
          ...common,
          SVC_AGENT_IMAGE: "svc-agent:1",
          SVC_ADVERTISE_URL: `http://${ADDRESS}:${port}`,
        },
      });
      const files = await Promise.all(
        [...ssh].map(async (path) => [path.slice(1), await Deno.readFile(path)] as const),
      );
      await baseImage(server, "app:1", { layers: [Object.fromEntries(files)] });
      await ok(server, ["image", "agent", "svc-agent:1"]);

      await t.step("a port that only the companion reaches", async () => {
        await ok(server, ["deploy", "-f", "-"], { stdin: spec("1") });
        const [web, companion, ...more] = await instances();
        assert.deepEqual(more, []);
        assert.equal(companion, `${web}-caretaker`);
        assert.equal(await answer(server), "1");
        const status: DeploymentStatus = JSON.parse(await ok(server, ["ps", "--output", "json"]));
        assert.equal(status.instances[0].companion, "attached");
      });

      await t.step("it follows a restart that svc was not asked for", async () => {
        const [web] = await instances();
        await peer.incus("restart", "--force", web);
        assert.equal(await answer(server), "1");
        await ok(server, ["restart", "web"]);
        assert.equal(await answer(server), "1");
      });

      await t.step("the caller's SSH agent, for one command", async () => {
        await using agent = await startAgent(folder);
        const script = `chmod +x ${[...ssh].join(" ")}; ssh-add -l; ls -d $SSH_AUTH_SOCK`;
        const listed = await ok(server, [
          ...["exec", "--forward-agent", "web", "sh", "-c", script],
        ], { env: { SSH_AUTH_SOCK: agent.path } });
        assert.match(listed, /callers-key/);
        assert.match(listed.trim(), /\n\/svc\/agents\/[0-9a-f]{32}\/agent$/);
        await withoutAgent(server, "/svc/agents");
      });

      await t.step("a killed server: the companion attaches to the next one", async () => {
        await server.kill9();
        await server.restart();
        assert.equal(await answer(server), "1");
      });

      await t.step("replaced with its instance, and removed with it", async () => {
        const before = await instances();
        await ok(server, ["deploy", "-f", "-"], { stdin: spec("2") });
        await eventually("two new ones are there", async () => {
          const after = await instances();
          return after.length === 2 && after.every((name) => !before.includes(name));
        });
        assert.equal(await answer(server), "2");
        await ok(server, ["rm", "web"]);
        await eventually("nothing is left", async () => {
          const volumes = await names("storage", "volume", "list", "default");
          return (await instances()).length === 0 && volumes.length === 0;
        });
      });
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
);
