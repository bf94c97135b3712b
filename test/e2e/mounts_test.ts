/** `svc deploy --session --mount` on the bare backend: the caller's own files in a workload, in place. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { cuttableWay } from "../fixtures/cuttable_way.ts";
import { eventually } from "../waits.ts";
import { e2eTest, type Server, startServer } from "./harness.ts";
import { Client } from "./session_client.ts";

const NEEDS = {
  root: true,
  commands: ["runc", "conmon", "iptables", "busybox"],
};

const DOCKERFILE = `FROM scratch
COPY busybox /bin/busybox
RUN ["/bin/busybox", "--install", "-s", "/bin"]
STOPSIGNAL SIGKILL
CMD ["sh", "-c", "echo serving; exec sleep 100000"]
`;

async function build(server: Server, folder: string): Promise<void> {
  await Deno.writeTextFile(join(folder, "Dockerfile"), DOCKERFILE);
  await Deno.copyFile("/bin/busybox", join(folder, "busybox"));
  const { code, stderr } = await server.svc(["build", "-t", "app:v1", folder]);
  assert.equal(code, 0, stderr);
}

/** What is mounted below the server's folder for mounts. */
async function mounted(server: Server): Promise<string[]> {
  const text = await Deno.readTextFile("/proc/self/mountinfo");
  return text.split("\n").filter((line) => line.includes(`${server.dataDir}/mounts/`));
}

async function names(server: Server): Promise<string[]> {
  const answer = await fetch(`${server.url}/.svc/v1/deployments`);
  return (await answer.json() as { name: string }[]).map(({ name }) => name);
}

/** Runs a script in the workload. */
async function inside(server: Server, script: string): Promise<string> {
  const { code, stdout, stderr } = await server.svc(["exec", "app", "sh", "-euc", script]);
  assert.equal(code, 0, `${script}\n${stdout}${stderr}`);
  return stdout.trim();
}

async function childrenOf(pid: number): Promise<number[]> {
  const threads = await Array.fromAsync(Deno.readDir(`/proc/${pid}/task`));
  const texts = await Promise.all(
    threads.map(({ name }) => Deno.readTextFile(`/proc/${pid}/task/${name}/children`)),
  );
  return texts.join(" ").split(/\s+/).filter(Boolean).map(Number);
}

/** Nothing of a session's mounts is left. */
async function gone(server: Server): Promise<void> {
  await eventually("the removal", async () => (await names(server)).length === 0);
  await eventually("the end of the mounts", async () => (await mounted(server)).length === 0);
  const folders = () => Array.fromAsync(Deno.readDir(`${server.dataDir}/mounts`)).catch(() => []);
  await eventually("the removal of the folders", async () => (await folders()).length === 0);
}

interface Scene extends AsyncDisposable {
  server: Server;
  folder: string;
  /** Arguments of a deploy with all mounts. */
  args: string[];
}

async function scene(env: Record<string, string>): Promise<Scene> {
  const server = await startServer({ env });
  const folder = await Deno.makeTempDir({ prefix: "svc-e2e-mounts-" });
  for (const name of ["image", "data", "fixed", "beside"]) await Deno.mkdir(join(folder, name));
  await build(server, join(folder, "image"));
  await Deno.writeTextFile(join(folder, "data/one"), "from the caller\n");
  await Deno.writeTextFile(join(folder, "fixed/two"), "not to be changed\n");
  await Deno.writeTextFile(join(folder, "beside/conf"), "a=1\n");
  await Deno.writeTextFile(join(folder, "beside/secret"), "of nobody else\n");
  const args = [
    ...["app:v1", "--name", "app", "--mount", `${folder}/data:/data`],
    ...["--mount", `${folder}/fixed:/fixed:ro`, "--mount", `${folder}/beside/conf:/etc/app.conf`],
  ];
  return {
    ...{ server, folder, args },
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      await Deno.remove(folder, { recursive: true });
    },
  };
}

e2eTest("deploy --mount: the caller's files are read and written in place", NEEDS, async (t) => {
  await using at = await scene({ SVC_SESSION_GRACE: "10m" });
  const { server, folder, args } = at;

  await t.step("a folder, a read-only folder and a file", async () => {
    await using client = new Client(server, args);
    await client.wrote(/^serving$/m);
    assert.equal(await inside(server, "cat /data/one"), "from the caller");
    await inside(
      server,
      "mkdir /data/new; echo written > /data/new/file; mv /data/one /data/three",
    );
    assert.equal(await Deno.readTextFile(join(folder, "data/new/file")), "written\n");
    assert.equal(await Deno.readTextFile(join(folder, "data/three")), "from the caller\n");
    await Deno.writeTextFile(join(folder, "data/three"), "changed by the caller\n");
    await eventually(
      "the change",
      async () => await inside(server, "cat /data/three") === "changed by the caller",
    );
    assert.equal(await inside(server, "cat /fixed/two"), "not to be changed");
    assert.match(
      await inside(server, "(echo x > /fixed/two) 2>&1 || true; (rm /fixed/two) 2>&1 || true"),
      /Read-only[^]*Read-only/,
    );
    assert.equal(await Deno.readTextFile(join(folder, "fixed/two")), "not to be changed\n");
    assert.equal(await inside(server, "cat /etc/app.conf; echo b=2 >> /etc/app.conf"), "a=1");
    assert.equal(await Deno.readTextFile(join(folder, "beside/conf")), "a=1\nb=2\n");
    assert.equal((await mounted(server)).length, 3);
    client.kill("SIGINT");
    assert.equal((await client.ended).code, 0, client.all);
    await gone(server);
  });

  await t.step("what cannot be is refused before anything is made", async () => {
    const refused = async (mount: string[], code: number, why: RegExp, session = true) => {
      const words = ["deploy", ...session ? ["--session"] : [], "app:v1", "--name", "app"];
      const run = await server.svc([...words, ...mount.flatMap((one) => ["--mount", one])]);
      assert.equal(run.code, code, run.stderr);
      assert.match(run.stderr, why);
      assert.deepEqual(await names(server), []);
    };
    await refused([`${folder}/data:/data`], 2, /Cannot use --mount: it is for sessions/, false);
    await refused([`${folder}/none:/data`], 1, /it cannot be read/);
    await refused([`${folder}/data:data`], 2, /an absolute target/);
    await refused([`${folder}/data:/`], 2, /its target is the root/);
    await refused([`${folder}/data:/d,later`], 2, /there is no option "later"/);
    await refused([`${folder}/data:/d:ro,async`], 2, /with ,async a mount is writable/);
    await refused(
      [`${folder}/data:/d`, `${folder}/fixed:/d`],
      2,
      /two mounts have the target \/d/,
    );
    await refused(["/dev/null:/d"], 2, /neither a file nor a folder/);
  });

  await t.step("a lost connection is a pause: open files stay open, nothing is lost", async () => {
    await using way = await cuttableWay(server.port);
    await using client = new Client({ ...server, url: way.url }, args);
    await client.wrote(/^serving$/m);
    // Written to all the time, by a file that is open and has no name any more, too.
    const script = "cd /data; exec 3> kept; exec 4<> nameless; rm nameless; n=0; " +
      "while [ ! -e stop ]; do n=$((n+1)); echo $n >&3; echo $n >&4; done; " +
      "cat /proc/self/fd/4 > back 2> /dev/null || true; echo $n > total";
    const running = inside(server, script);
    for (let cut = 0; cut < 3; cut++) {
      const size = () => Deno.stat(join(folder, "data/kept")).then(({ size }) => size, () => 0);
      const before = await size();
      await eventually("progress", async () => await size() > before + 20);
      way.cut();
      await client.wrote(new RegExp(`(the session is resumed[^]*){${cut + 1}}`));
    }
    await Deno.writeTextFile(join(folder, "data/stop"), "");
    await running;
    const total = Number(await Deno.readTextFile(join(folder, "data/total")));
    const want = Array.from({ length: total }, (_, n) => `${n + 1}\n`).join("");
    assert.equal(await Deno.readTextFile(join(folder, "data/kept")), want);
    client.kill("SIGINT");
    assert.equal((await client.ended).code, 0, client.all);
    await gone(server);
  });
});

e2eTest("deploy --mount: nothing is left when somebody is killed", NEEDS, async (t) => {
  await using at = await scene({ SVC_SESSION_GRACE: "1s" });
  const { server, args } = at;

  await t.step(
    "kill -9 of the caller: calls fail after the grace, then all is removed",
    async () => {
      await using client = new Client(server, args);
      await client.wrote(/^serving$/m);
      const reading = server.svc([
        ...["exec", "app", "sh", "-c"],
        "while ls /data > /dev/null; do :; done; echo failed",
      ]);
      client.kill("SIGKILL");
      await client.ended;
      await gone(server);
      await reading;
    },
  );

  await t.step("kill -9 of the process of the mounts: the session ends, and says why", async () => {
    await using client = new Client(server, args);
    await client.wrote(/^serving$/m);
    for (const pid of await childrenOf(server.pid)) {
      const command = await Deno.readTextFile(`/proc/${pid}/cmdline`).catch(() => "");
      if (command.includes("\0mount-files\0")) Deno.kill(pid, "SIGKILL");
    }
    assert.equal((await client.ended).code, 1, client.all);
    assert.match(client.all, /the process that served them at the server ended/);
    await gone(server);
  });

  await t.step("kill -9 of the server: the next one removes what it left", async () => {
    await using client = new Client(server, args);
    await client.wrote(/^serving$/m);
    await server.kill9();
    await eventually("the end of the mounts", async () => (await mounted(server)).length === 0);
    await server.restart();
    await server.logged(/mounts ended with the last server/);
    await gone(server);
    assert.equal((await client.ended).code, 1, client.all);
  });
});
