/** SVC_DOCKER_REMOTE: a companion beside each instance, and what goes through it. */
import assert from "node:assert/strict";
import { join } from "node:path";
import type { DeploymentStatus } from "../../lib/api/deployment.ts";
import { busyboxArchive } from "../peers/base_image.ts";
import { type DockerdPeer, startDockerd } from "../peers/dockerd.ts";
import {
  e2eTest,
  EXECUTABLE,
  freePort,
  runTool,
  type Server,
  startServer,
  svc,
} from "./harness.ts";

const NEEDS = {
  root: true,
  files: [EXECUTABLE],
  commands: ["dockerd", "docker", "busybox", "unshare", "nsenter", "ip", "iptables", "runc"],
};

async function eventually<T>(what: string, ask: () => Promise<T | false>): Promise<T> {
  let last: unknown;
  for (const until = Date.now() + 120_000; Date.now() < until;) {
    try {
      const found = await ask();
      if (found !== false) return found;
    } catch (error) {
      last = error;
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`did not happen: ${what}`, { cause: last });
}

async function ok(server: Server, args: string[], options: Parameters<Server["svc"]>[1] = {}) {
  const { code, stdout, stderr } = await server.svc(args, options);
  assert.equal(code, 0, `svc ${args.join(" ")}: ${stderr}`);
  return stdout;
}

/** The workload's image: busybox, and the SSH client of this machine with its libraries. */
async function makeImage(daemon: DockerdPeer, folder: string): Promise<void> {
  await busyboxArchive(join(folder, "root.tar"));
  await daemon.docker("import", join(folder, "root.tar"), "base:1");
  const context = join(folder, "context");
  const programs = ["/usr/bin/ssh-add", "/usr/bin/ssh"];
  const { stdout: listed } = await runTool("ldd", programs);
  const libraries = [...listed.matchAll(/(\/\S+) \(0x/g)].map(([, path]) => path);
  for (const path of new Set([...programs, ...libraries])) {
    await Deno.mkdir(join(context, path, ".."), { recursive: true });
    await Deno.copyFile(path, join(context, path));
  }
  await Deno.writeTextFile(join(context, "Dockerfile"), "FROM base:1\nCOPY . /\n");
  await daemon.docker("build", "-t", "app:1", context);
}

/** An agent with one key, of the caller. */
async function startAgent(folder: string) {
  const path = join(folder, "agent.sock");
  const key = join(folder, "key");
  await runTool("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-C", "callers-key", "-f", key]);
  const child = new Deno.Command("ssh-agent", { args: ["-D", "-a", path], stdout: "null" }).spawn();
  await eventually("the agent", async () => {
    await runTool("ssh-add", ["-q", key], { env: { SSH_AUTH_SOCK: path } });
    return true;
  });
  return {
    path,
    key: (await Deno.readTextFile(key)).split("\n")[1],
    async [Symbol.asyncDispose]() {
      child.kill();
      await child.status;
    },
  };
}

/** Listens on its loopback alone: nobody but its companion reaches it. */
const spec = (version: string) =>
  JSON.stringify({
    name: "web",
    image: "app:1",
    command: [
      "/bin/sh",
      "-c",
      "mkdir -p /www; echo $VERSION > /www/index.html; exec httpd -f -p 127.0.0.1:8080 -h /www",
    ],
    env: { VERSION: version },
    stopSignal: "SIGKILL",
  });

/** What the workload answers through the server's forwarded port. */
async function answer(server: Server): Promise<string> {
  const port = freePort();
  const child = new Deno.Command(EXECUTABLE, {
    args: ["port-forward", "--server", server.url, "web", `${port}:8080`],
    stdout: "null",
    stderr: "null",
  }).spawn();
  try {
    return await eventually("the forwarded port", async () => {
      const response = await fetch(`http://127.0.0.1:${port}/`);
      return response.ok ? (await response.text()).trim() : false;
    });
  } finally {
    child.kill();
    await child.status;
  }
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
        // Its end was the end of the socket; without one there is none.
        const left = await ok(server, [
          "exec",
          "web",
          "sh",
          "-c",
          "ls -a /run/svc/agents; echo $SSH_AUTH_SOCK",
        ]);
        assert.deepEqual(left.trim().split("\n"), [".", ".."]);
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
        const after = await containers();
        assert.equal(after.length, 2);
        assert.ok(after.every((name) => !before.includes(name)), after.join(" "));
        assert.equal(await answer(server), "2");
        await ok(server, ["rm", "web"]);
        assert.deepEqual(await containers(), []);
        assert.equal((await daemon.docker("volume", "ls", "-q")).stdout.trim(), "");
      });
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
);
