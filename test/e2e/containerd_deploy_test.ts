/** `svc serve` on containerd: a daemon that comes late, a server that is killed, a daemon that is killed. */
import assert from "node:assert/strict";
import { get, outside, proxied } from "../peers/outside.ts";
import { startContainerd } from "../peers/containerd.ts";
import { eventually } from "../waits.ts";
import { ok } from "./commands.ts";
import { baseImage, e2eTest, freePort, runTool, startServer } from "./harness.ts";

const NEEDS = {
  root: true,
  commands: [
    "containerd",
    "ctr",
    "runc",
    "perl",
    "flock",
    "iptables",
    "ip",
    "busybox",
    "umoci",
    "skopeo",
  ],
};

e2eTest(
  "containerd: it comes late; the server is killed, the daemon is killed",
  NEEDS,
  async () => {
    const folder = await Deno.makeTempDir({ prefix: "svc-e2e-containerd-" });
    try {
      await using daemon = await startContainerd(folder);
      await daemon.stop();
      await using server = await startServer({
        env: { SVC_DEPLOY_BACKEND: "containerd", CONTAINERD_ADDRESS: daemon.address },
      });
      const image = `${server.host}/base:1`;
      const port = freePort();
      const spec = (version: string) =>
        JSON.stringify({
          name: "web",
          image,
          env: { VERSION: version },
          ports: [`127.0.0.1:${port}:8080`],
          command: ["sh", "-c", "echo $VERSION > /srv/index.html; exec httpd -f -p 8080 -h /srv"],
          stopSignal: "SIGKILL",
        });
      const none = await server.svc(["deploy", "-f", "-"], { stdin: spec("0") });
      assert.equal(none.code, 1);
      assert.match(none.stderr, /Cannot use containerd at .*\n.*start containerd/);
      await daemon.start();
      await baseImage(server, "base:1");
      await ok(server, ["deploy", "-f", "-"], { stdin: spec("1") });
      const answer = async () => {
        const response = await fetch(`http://127.0.0.1:${port}/`, {
          headers: { connection: "close" },
          signal: AbortSignal.timeout(60_000),
        });
        return (await response.text()).trim();
      };
      await eventually("an answer", async () => await answer() === "1");
      const containers = async () =>
        (await runTool("ctr", ["-a", daemon.address, "-n", "svc", "tasks", "ls", "-q"]))
          .stdout.trim().split("\n");
      for (let round = 2; round < 6; round++) {
        const deploy = server.svc(["deploy", "-f", "-"], { stdin: spec(String(round)) });
        await new Promise((resolve) => setTimeout(resolve, 100 + Math.random() * 1500));
        await (round === 5 ? daemon.kill9() : server.kill9());
        await deploy;
        await (round === 5 ? daemon.start() : server.restart());
        await eventually(
          `one whole deployment after round ${round}`,
          async () => (await containers()).length === 1 && /^[1-9]$/.test(await answer()),
        );
        await eventually(
          "it runs",
          async () => /web .*running/.test(await ok(server, ["ps"])),
        );
      }
      await ok(server, ["deploy", "-f", "-"], { stdin: spec("9") });
      await eventually("the last answer", async () => await answer() === "9");
      assert.equal(await ok(server, ["exec", "web", "sh", "-c", "echo $VERSION"]), "9\n");
      await using other = await outside();
      const egress = {
        mode: "proxy",
        rules: [{ pattern: `${other.address}:${other.port}`, route: "cluster" }],
        default: "deny",
      };
      const walled = JSON.stringify({ name: "walled", image, egress, stopSignal: "SIGKILL" });
      await ok(server, ["deploy", "-f", "-"], { stdin: walled });
      const inside = (script: string) => server.svc(["exec", "walled", "sh", "-c", script]);
      assert.match((await inside(proxied(other.address, other.port))).stdout, /from outside/);
      assert.match((await inside(proxied("192.0.2.1", 80))).stdout, /^HTTP\/1\.1 403 /);
      assert.notEqual((await inside(get(other.address, other.port))).code, 0);
      await ok(server, ["rm", "walled"]);
      await ok(server, ["rm", "web"]);
      await eventually("nothing is left", async () => (await containers()).join() === "");
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
);
