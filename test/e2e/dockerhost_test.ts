/** `svc serve`, `svc build` and `svc deploy` with a Docker daemon and no setting but where it is. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { busyboxArchive } from "../peers/base_image.ts";
import { startDockerd } from "../peers/dockerd.ts";
import { get } from "../peers/outside.ts";
import { eventually } from "../waits.ts";
import { ok } from "./commands.ts";
import { e2eTest, freePort, startServer } from "./harness.ts";

const NEEDS = {
  root: true,
  commands: ["dockerd", "docker", "busybox", "unshare", "nsenter", "ip", "iptables", "runc"],
};

e2eTest(
  "a Docker daemon: found when it is there; build, deploy, a server that is killed",
  NEEDS,
  async () => {
    const folder = await Deno.makeTempDir({ prefix: "svc-e2e-docker-" });
    try {
      await using daemon = await startDockerd(join(folder, "daemon"), { network: "own" });
      await busyboxArchive(join(folder, "root.tar"));
      await daemon.docker("import", join(folder, "root.tar"), "base:1");
      await daemon.stop();
      // The server's processes and the test's sockets are in the daemon's network.
      using _network = daemon.enter();
      await using server = await startServer({
        listen: "0.0.0.0",
        env: { SVC_DEPLOY_BACKEND: "", DOCKER_HOST: daemon.host },
      });
      const port = freePort();
      const spec = (version: string) =>
        JSON.stringify({
          name: "web",
          image: "app:v1",
          env: { VERSION: version },
          ports: [`127.0.0.1:${port}:8080`],
          stopSignal: "SIGKILL",
        });
      const none = await server.svc(["deploy", "-f", "-"], { stdin: spec("0") });
      assert.equal(none.code, 1);
      assert.match(none.stderr, /Cannot reach the Docker daemon at unix:.*\n.*start the daemon/);
      await daemon.start();

      const context = join(folder, "context");
      await Deno.mkdir(context);
      await Deno.writeTextFile(
        join(context, "Dockerfile"),
        "FROM base:1\nRUN mkdir -p /www\n" +
          'CMD ["/bin/sh", "-c", "echo $VERSION > /www/index.html; exec httpd -f -p 8080 -h /www"]\n',
      );
      await eventually(
        "the build",
        async () => (await server.svc(["build", "-t", "app:v1", context])).code === 0,
      );
      assert.match((await daemon.docker("images")).stdout, /app +v1/);
      await ok(server, ["deploy", "-f", "-"], { stdin: spec("1") });
      const answer = async () => (await (await fetch(`http://127.0.0.1:${port}/`)).text()).trim();
      await eventually("an answer", async () => await answer() === "1");
      assert.match(await ok(server, ["ps"]), /web .*running/);
      assert.equal(await ok(server, ["exec", "web", "sh", "-c", "echo $VERSION"]), "1\n");
      assert.match((await daemon.docker("ps")).stdout, /web-0-/);
      const route = await ok(server, ["exec", "web", "ip", "route"]);
      const gateway = /default via ([\d.]+)/.exec(route)![1];
      const asks = async (path: string) =>
        await ok(server, ["exec", "web", "--", "sh", "-c", get(gateway, server.port, path)]);
      assert.match(await asks("/.svc/v1/deployments"), /403 .*own builds and workloads/s);
      assert.match(await asks("/v2/"), /200 OK/);
      const [address] = (await ok(server, ["exec", "web", "hostname", "-i"])).split(/\s/);
      await Deno.writeTextFile(
        join(context, "Dockerfile"),
        `FROM base:1\nRUN echo | nc -w 1 ${address} 8080 && echo it is reached || echo it is apart\n`,
      );
      const step = await server.svc(["build", "--progress", "plain", "-t", "step:1", context]);
      assert.match(step.stderr, /^#\d+ [\d.]+ it is apart$/m);

      for (let round = 2; round < 7; round++) {
        const deploy = server.svc(["deploy", "-f", "-"], { stdin: spec(String(round)) });
        await new Promise((resolve) => setTimeout(resolve, 200 + Math.random() * 2500));
        await server.kill9();
        await deploy;
        await server.restart();
        await eventually(`one whole deployment after round ${round}`, async () => {
          const { stdout } = await daemon.docker("ps", "-a", "--format", "{{.ID}}");
          const list = stdout.trim().split("\n");
          return list.length === 1 && /^[1-9]$/.test(await answer());
        });
        await eventually(
          "it runs",
          async () => /web .*running/.test(await ok(server, ["ps"])),
        );
      }
      await ok(server, ["deploy", "-f", "-"], { stdin: spec("9") });
      await eventually("the last answer", async () => await answer() === "9");
      await ok(server, ["rm", "web"]);
      assert.equal((await daemon.docker("ps", "-aq")).stdout.trim(), "");
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
);
