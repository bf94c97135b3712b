/** `svc compose run` and `create` with folders of a caller who is not on the server's machine. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { removeFolder } from "../peers/cleanup.ts";
import { laptop } from "../peers/laptop.ts";
import { eventually } from "../waits.ts";
import { baseImage, e2eTest, EXECUTABLE, type RunOutput, startServer } from "./harness.ts";

const NEEDS = {
  root: true,
  commands: ["runc", "conmon", "iptables", "busybox", "skopeo", "ip"],
};

e2eTest("compose: run and create from another machine, with its folders", NEEDS, async (t) => {
  await using far = await laptop();
  await using server = await startServer({ listen: "0.0.0.0" });
  await baseImage(server, "base:1");
  const folder = await Deno.makeTempDir({ prefix: "svc-e2e-run-" });
  const project = join(folder, "shop");
  const env = {
    ...{ PATH: Deno.env.get("PATH")!, HOME: folder, XDG_RUNTIME_DIR: join(folder, "run") },
    ...{ SVC_SERVER: `http://${far.host}:${server.port}` },
  };
  const svc = async (args: readonly string[], stdin = ""): Promise<RunOutput> => {
    const child = new Deno.Command(far.within[0], {
      args: [...far.within.slice(1), EXECUTABLE, ...args],
      ...{ cwd: project, env, clearEnv: true, stdin: "piped", stdout: "piped", stderr: "piped" },
    }).spawn();
    const writer = child.stdin.getWriter();
    await writer.write(new TextEncoder().encode(stdin));
    await writer.close();
    const { code, stdout, stderr } = await child.output();
    const [out, err] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
    return { code, stdout: out, stderr: err };
  };
  const ok = async (...args: string[]) => {
    const { code, stdout, stderr } = await svc(["compose", ...args]);
    assert.equal(code, 0, `${args.join(" ")}: ${stderr}`);
    return stdout;
  };
  const held = async () => JSON.parse((await svc(["daemon", "status", "-o", "json"])).stdout).held;
  const deployments = async () =>
    await (await fetch(`${server.url}/.svc/v1/deployments`)).json() as { name: string }[];
  const none = () =>
    eventually(
      "nothing is held or deployed",
      async () => (await held()).length + (await deployments()).length === 0,
    );
  const read = (path: string) => Deno.readTextFile(join(project, path));
  for (const name of ["run", "shop", "shop/src"]) await Deno.mkdir(join(folder, name));
  await Deno.writeTextFile(join(project, "src/in"), "hello\n");
  const web = {
    ...{ image: "base:1", volumes: ["./src:/srv"], stop_signal: "SIGKILL" },
    command: ["sh", "-c", "echo begun > /srv/begun; exec sleep 1000"],
  };
  await Deno.writeTextFile(join(project, "compose.yaml"), JSON.stringify({ services: { web } }));
  try {
    await t.step(
      "run: reads and writes here, takes input, and ends with its exit code",
      async () => {
        const script = "cat /srv/in -; echo out > /srv/out; exit 3";
        const run = ["compose", "run", "--rm", "-T", "web", "sh", "-c", script];
        const { code, stdout, stderr } = await svc(run, "typed\n");
        assert.deepEqual([code, stdout], [3, "hello\ntyped\n"], stderr);
        assert.equal(await read("src/out"), "out\n");
        await none();
      },
    );
    await t.step(
      "run -v: a folder that is not there is made, and replaces the file's",
      async () => {
        await ok(
          "run",
          "--rm",
          "-T",
          "-v",
          "./other:/srv",
          "web",
          "sh",
          "-c",
          "echo other > /srv/x",
        );
        assert.equal(await read("other/x"), "other\n");
      },
    );
    await t.step("run without --rm: what has ended stays, until down", async () => {
      await ok("run", "-T", "web", "true");
      assert.match(await ok("ps", "-a"), /shop-web-run-\w+ .*Exited \(0\)/);
      await ok("down");
      await none();
    });
    await t.step("a run that the server's end has ended is not run again", async () => {
      await ok("run", "-d", "web");
      await eventually("it has begun", async () => await read("src/begun") !== "");
      await Deno.remove(join(project, "src/begun"));
      await server.kill9();
      await server.restart();
      await eventually("it is not held", async () => (await held()).length === 0);
      await assert.rejects(read("src/begun"), Deno.errors.NotFound);
    });
    await t.step("create makes, start starts, up leaves it alone", async () => {
      await ok("create");
      assert.match(await ok("ps", "-a"), /shop-web-1 .*Created/);
      await assert.rejects(read("src/begun"), Deno.errors.NotFound);
      await ok("start");
      await eventually("it has begun", async () => await read("src/begun") !== "");
      const { stderr } = await svc(["compose", "up", "-d"]);
      assert.match(stderr, /Container shop-web-1 {2}Running/);
      await ok("down");
      await none();
    });
  } finally {
    await svc(["compose", "down"]);
    await svc(["daemon", "stop"]);
    await removeFolder(folder);
  }
});
