/** `svc deploy --session --mount …,cache` and `…,async` on the bare backend. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { eventually } from "../waits.ts";
import { e2eTest, type Server, startServer } from "./harness.ts";
import { Client } from "./session_client.ts";

const NEEDS = {
  root: true,
  commands: ["runc", "conmon", "iptables", "busybox", "sqlite3"],
};

const DOCKERFILE = `FROM scratch
COPY busybox /bin/busybox
RUN ["/bin/busybox", "--install", "-s", "/bin"]
STOPSIGNAL SIGKILL
CMD ["sh", "-c", "echo serving; exec sleep 100000"]
`;
const SIZE = 3_000_000;

interface Scene extends AsyncDisposable {
  server: Server;
  folder: string;
  /** A session whose caller has its own secret, by a name. */
  deploy(caller: string, mount: string, more?: Record<string, string>): Client;
}

async function scene(env: Record<string, string>, folder: string): Promise<Scene> {
  const server = await startServer({ env });
  for (const name of ["image", "data", "ann", "bob"]) {
    await Deno.mkdir(join(folder, name), { recursive: true });
  }
  await Deno.writeTextFile(join(folder, "image/Dockerfile"), DOCKERFILE);
  await Deno.copyFile("/bin/busybox", join(folder, "image/busybox"));
  const { code, stderr } = await server.svc(["build", "-t", "app:v1", join(folder, "image")]);
  assert.equal(code, 0, stderr);
  return {
    ...{ server, folder },
    deploy: (caller, mount, more = {}) =>
      new Client(server, ["app:v1", "--name", "app", "--mount", mount], {
        SVC_CONFIG: join(folder, caller, "config.yaml"),
        ...more,
      }),
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

async function inside(server: Server, script: string): Promise<string> {
  const { code, stdout, stderr } = await server.svc(["exec", "app", "sh", "-euc", script]);
  assert.equal(code, 0, `${script}\n${stdout}${stderr}`);
  return stdout.trim();
}

const gone = (server: Server) =>
  eventually("the session's deployment and mounts are gone", async () => {
    const answer = await fetch(`${server.url}/.svc/v1/deployments`);
    const text = await Deno.readTextFile("/proc/self/mountinfo");
    const none = (await answer.json() as unknown[]).length === 0;
    return none && !text.includes(`${server.dataDir}/mounts/`);
  });

/** Bytes that a process has read so far. */
async function readBy(pid: number): Promise<number> {
  return Number(/^rchar: (\d+)/m.exec(await Deno.readTextFile(`/proc/${pid}/io`))![1]);
}

async function temporary(work: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-e2e-kept-" });
  try {
    await work(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

e2eTest(
  "deploy --mount ,cache: what was read is not read again, but by another caller",
  NEEDS,
  () =>
    temporary(async (folder) => {
      const env = { SVC_FILE_CACHE: "1", SVC_FILE_CACHE_DIR: join(folder, "cache") };
      await using at = await scene(env, folder);
      const { server } = at;
      await Deno.writeFile(join(folder, "data/large"), new Uint8Array(SIZE).fill(7));
      const session = async (caller: string) => {
        await using client = at.deploy(caller, `${folder}/data:/data,cache`);
        await client.wrote(/^serving$/m);
        const before = await readBy(client.pid);
        assert.match(await inside(server, "wc -c /data/large"), /^3000000/);
        const read = await readBy(client.pid) - before;
        const refused = await inside(server, "(echo x > /data/new) 2>&1 || true");
        assert.match(refused, /Read-only/);
        assert.ok(!client.all.includes("not cached"), client.all);
        client.kill("SIGINT");
        assert.equal((await client.ended).code, 0, client.all);
        await gone(server);
        return read;
      };
      assert.ok(await session("ann") >= SIZE);
      assert.ok(await session("ann") < SIZE / 2, "it was read once more");
      await server.kill9();
      await server.restart();
      assert.ok(await session("ann") < SIZE / 2, "it was read once more after a restart");
      assert.ok(await session("bob") >= SIZE, "another caller was served what was kept for one");
    }),
);

/** Runs transactions until the database cannot be used; returns how many were acknowledged. */
async function transactions(db: string, begun: () => void): Promise<number> {
  const child = new Deno.Command("sqlite3", {
    args: ["-bail", db],
    ...{ stdin: "piped", stdout: "piped", stderr: "null" },
  }).spawn();
  const script = Array.from(
    { length: 20_000 },
    (_, n) =>
      `begin; insert into t values(${n + 1}, randomblob(3000));
     update t set b = randomblob(900) where n % 9 = ${n % 9}; commit; select 'done';`,
  );
  const writer = child.stdin.getWriter();
  const text = `create table t(n integer primary key, b);\n${script.join("\n")}`;
  writer.write(new TextEncoder().encode(text)).then(() => writer.close()).catch(() => {});
  let acknowledged = 0;
  for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
    acknowledged += text.split("done").length - 1;
    if (acknowledged > 5) begun();
  }
  await child.status;
  return acknowledged;
}

async function mountProcess(server: Server): Promise<number> {
  for await (const { name } of Deno.readDir("/proc")) {
    const command = await Deno.readTextFile(`/proc/${name}/cmdline`).catch(() => "");
    const status = await Deno.readTextFile(`/proc/${name}/status`).catch(() => "");
    const parent = Number(/^PPid:\s*(\d+)/m.exec(status)?.[1]);
    if (command.includes("\0mount-files\0") && parent === server.pid) return Number(name);
  }
  throw new Error("no process serves the mounts");
}

e2eTest(
  "deploy --mount ,async: databases are whole, changes are refused, and told",
  NEEDS,
  (t) =>
    temporary(async (folder) => {
      const coherence = { SVC_BLOCK_COHERENCE: "subfill,defer" };
      const env = { ...coherence, SVC_BLOCK_READAHEAD: "64k", SVC_SESSION_GRACE: "1s" };
      await using at = await scene(env, folder);
      const { server } = at;
      const mount = `${folder}/data:/data,async`;

      await t.step("a change made here is in the way of the workload's writes", async () => {
        await using client = at.deploy("ann", mount, coherence);
        await client.wrote(/^serving$/m);
        const script = "exec 3<> /data/file; echo a >&3; sync /data/file; touch /data/begun; " +
          "while [ ! -e /data/go ]; do :; done; while echo b >&3; do :; done; echo refused";
        const running = inside(server, script);
        await eventually("it has begun", () => Deno.stat(`${folder}/data/begun`));
        await Deno.writeTextFile(`${folder}/data/file`, "from here\n");
        await Deno.writeTextFile(`${folder}/data/go`, "");
        assert.match(await running, /refused/);
        await client.wrote(/a file below .* was changed here/);
        assert.equal(await Deno.readTextFile(`${folder}/data/file`), "from here\n");
        assert.equal(await inside(server, "cat /data/file"), "from here");
        client.kill("SIGINT");
        assert.equal((await client.ended).code, 0, client.all);
        await gone(server);
      });

      for (const who of ["caller", "mounts", "server"]) {
        await t.step(
          `kill -9 of the ${who}: the database has all that was acknowledged`,
          async () => {
            await using client = at.deploy("ann", mount, coherence);
            await client.wrote(/^serving$/m);
            const begun = Promise.withResolvers<void>();
            const db = join(server.dataDir, "mounts/app/0/tree", who);
            const running = transactions(db, begun.resolve);
            await Promise.race([begun.promise, running.then(() => assert.fail("it ended early"))]);
            if (who === "caller") client.kill("SIGKILL");
            else if (who === "mounts") Deno.kill(await mountProcess(server), "SIGKILL");
            else await server.kill9();
            const acknowledged = await running;
            // The caller of a killed server waits for the next one.
            if (who === "server") await server.restart();
            await client.ended;
            await gone(server);
            const args = [
              join(folder, "data", who),
              "pragma integrity_check; select count(*), max(n) from t",
            ];
            const { stdout } = await new Deno.Command("sqlite3", { args }).output();
            const [whole, counts] = new TextDecoder().decode(stdout).trim().split("\n");
            assert.equal(whole, "ok");
            const [count, last] = counts.split("|").map(Number);
            assert.equal(count, last);
            assert.ok(
              count >= acknowledged,
              `${acknowledged} were acknowledged, ${count} are there`,
            );
          },
        );
      }

      await t.step("it is for one replica", async () => {
        const spec = join(folder, "spec.yaml");
        await Deno.writeTextFile(spec, "name: app\nimage: app:v1\nreplicas: 2\n");
        const run = await server.svc(["deploy", "--session", "-f", spec, "--mount", mount]);
        assert.equal(run.code, 2, run.stderr);
        assert.match(run.stderr, /with ,async there is one replica/);
      });

      await t.step(
        "without a file cache a mount with ,cache is a plain one, and this is told",
        async () => {
          await using client = at.deploy("ann", `${folder}/data:/data,cache`);
          await client.wrote(/^serving$/m);
          await client.wrote(/mount \/data: it is not cached/);
          assert.equal(await inside(server, "cat /data/file"), "from here");
          client.kill("SIGINT");
          await client.ended;
          await gone(server);
        },
      );
    }),
);
