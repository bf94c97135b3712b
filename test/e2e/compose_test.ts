/** Compose files on a server: docker compose's commands, and what becomes of the services. */
import assert from "node:assert/strict";
import { join } from "node:path";
import {
  baseImage,
  e2eTest,
  freePort,
  type RunOutput,
  type Server,
  startServer,
} from "./harness.ts";

const NEEDS = { root: true, commands: ["runc", "conmon", "iptables", "busybox", "skopeo"] };

function ok({ code, stdout, stderr }: RunOutput): string {
  assert.equal(code, 0, `exit code ${code}: ${stderr}${stdout}`);
  return stdout;
}

/** A folder with a Compose file, and `svc compose` in it. */
class Project implements AsyncDisposable {
  readonly #server: Server;
  readonly folder: string;

  private constructor(server: Server, folder: string) {
    this.#server = server;
    this.folder = folder;
  }

  static async open(server: Server): Promise<Project> {
    return new Project(server, await Deno.makeTempDir({ prefix: "svc-e2e-compose-" }));
  }

  async write(text: string, name = "compose.yaml"): Promise<void> {
    await Deno.writeTextFile(join(this.folder, name), text);
  }

  run(...args: string[]): Promise<RunOutput> {
    return this.#server.svc(["compose", ...args], { cwd: this.folder });
  }

  /** Each container's state, by its name. */
  async states(): Promise<Record<string, string>> {
    const lines = ok(await this.run("ps", "-a", "--format", "json")).trim().split("\n");
    const all = lines.filter(Boolean).map((line) => JSON.parse(line));
    return Object.fromEntries(all.map(({ Name, State }) => [Name, State]));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.run("down", "-v", "--remove-orphans");
    await Deno.remove(this.folder, { recursive: true });
  }
}

/** `more`: fields of the service `web`, indented by four spaces. */
const shop = (port: number, more = "") =>
  `name: shop
services:
  db:
    image: base:1
    command: ["sh", "-c", "echo from db > /data/page; touch /tmp/up; exec httpd -f -p 80 -h /data"]
    stop_signal: SIGKILL
    healthcheck:
      test: test -e /tmp/up
      interval: 1h
      start_period: 60s
      start_interval: 100ms
    volumes: [data:/data]
  web:
    image: base:1
    command: sh -c "wget -q -O /page http://db/page && cat /page && exec httpd -f -p 8080 -h /"
    stop_signal: SIGKILL
    depends_on:
      db: { condition: service_healthy }
    ports: ["127.0.0.1:${port}:8080"]
${more}volumes:
  data:
`;

e2eTest("compose: services of a file, from up to down", NEEDS, async (t) => {
  await using server = await startServer();
  await baseImage(server, "base:1");
  await using project = await Project.open(server);
  const port = freePort();
  await project.write(shop(port));
  const page = async () => {
    const answer = await fetch(`http://127.0.0.1:${port}/page`, {
      headers: { connection: "close" },
    });
    return await answer.text();
  };

  await t.step("up -d: in order, once what is needed is healthy; names resolve", async () => {
    const up = await project.run("up", "-d", "--wait");
    ok(up);
    const told = up.stderr.split("\n").map((line) => line.trim());
    for (const line of ["Network shop_default  Created", "Volume shop_data  Created"]) {
      assert.ok(told.includes(line), `${line} is not told:\n${up.stderr}`);
    }
    const [healthy, begun] = ["Container shop-db-1  Healthy", "Container shop-web-1  Creating"]
      .map((line) => told.indexOf(line));
    assert.ok(healthy >= 0 && healthy < begun, up.stderr);
    assert.deepEqual(await project.states(), { "shop-db-1": "running", "shop-web-1": "running" });
    assert.equal(await page(), "from db\n");
  });

  await t.step("ps, ls, port, logs, images, top show it", async () => {
    assert.match(ok(await project.run("ps")), /shop-db-1 .* Up .*\(healthy\)/);
    assert.match(ok(await project.run("ls")), /^shop +running\(2\)/m);
    assert.equal(ok(await project.run("port", "web", "8080")), `127.0.0.1:${port}\n`);
    assert.match(ok(await project.run("logs", "web")), /^web-1 {2}\| from db$/m);
    assert.match(ok(await project.run("images")), /shop-web-1 .*base +1 /);
    assert.match(ok(await project.run("top", "db")), /httpd -f -p 80/);
    assert.equal(ok(await project.run("ps", "--services")), "db\nweb\n");
  });

  await t.step("exec: output and exit code are the command's", async () => {
    assert.equal(ok(await project.run("exec", "-T", "db", "cat", "/data/page")), "from db\n");
    assert.equal((await project.run("exec", "web", "sh", "-c", "exit 7")).code, 7);
    assert.notEqual((await project.run("exec", "nobody", "true")).code, 0);
  });

  await t.step(
    "up again: nothing is done; what changed is recreated, and nothing else",
    async () => {
      const again = await project.run("up", "-d");
      ok(again);
      assert.match(again.stderr, /Container shop-web-1 {2}Running/);
      await project.write(shop(port, "    environment: { COLOUR: blue }\n"));
      const changed = await project.run("up", "-d");
      ok(changed);
      assert.match(changed.stderr, /Container shop-db-1 {2}Running/);
      assert.match(changed.stderr, /Container shop-web-1 {2}Recreated/);
      assert.equal(ok(await project.run("exec", "web", "sh", "-c", "echo $COLOUR")), "blue\n");
    },
  );

  await t.step("scale: more and fewer; the others run on", async () => {
    const before = ok(await project.run("exec", "--index", "1", "db", "cat", "/proc/1/stat"));
    ok(await project.run("up", "-d", "--no-deps", "--scale", "db=2", "db"));
    assert.equal((await project.states())["shop-db-2"], "running");
    ok(await project.run("up", "-d", "--no-deps", "db"));
    assert.equal((await project.states())["shop-db-2"], undefined);
    const after = ok(await project.run("exec", "--index", "1", "db", "cat", "/proc/1/stat"));
    // Its start, in ticks since boot.
    assert.equal(after.split(" ")[21], before.split(" ")[21]);
  });

  await t.step("stop, start, restart, kill, pause: of one service", async () => {
    ok(await project.run("stop", "web"));
    assert.deepEqual(await project.states(), { "shop-db-1": "running", "shop-web-1": "exited" });
    ok(await project.run("start", "web"));
    ok(await project.run("pause", "web"));
    assert.equal((await project.states())["shop-web-1"], "paused");
    ok(await project.run("unpause", "web"));
    ok(await project.run("restart", "web"));
    assert.equal((await project.states())["shop-web-1"], "running");
    ok(await project.run("kill", "web"));
    assert.equal((await project.states())["shop-web-1"], "exited");
  });

  await t.step(
    "a service that left the file is told, and removed where that is asked",
    async () => {
      await project.write("name: shop\nservices:\n  db: { image: base:1, stop_signal: SIGKILL }\n");
      const up = await project.run("up", "-d");
      ok(up);
      assert.match(up.stderr, /Found orphan containers \(\[shop-web-1\]\)/);
      ok(await project.run("up", "-d", "--remove-orphans"));
      assert.deepEqual(Object.keys(await project.states()), ["shop-db-1"]);
    },
  );

  await t.step("down -v takes everything away", async () => {
    await project.write(shop(port));
    ok(await project.run("down", "-v", "--remove-orphans"));
    assert.deepEqual(await project.states(), {});
    assert.equal(ok(await server.svc(["volume", "ls", "-q"])), "");
    assert.doesNotMatch(ok(await server.svc(["network", "ls", "-q"])), /shop/);
  });
});

e2eTest("compose: attached, exit codes, and what cannot be", NEEDS, async (t) => {
  await using server = await startServer();
  await baseImage(server, "base:1");
  await using project = await Project.open(server);

  await t.step("--exit-code-from: the others stop with it", async () => {
    await project.write(`name: job
services:
  side: { image: base:1, command: sleep 1000, stop_signal: SIGKILL }
  main: { image: base:1, command: sh -c "echo did it; exit 3", depends_on: [side] }
`);
    const up = await project.run("up", "--exit-code-from", "main");
    assert.equal(up.code, 3, up.stderr);
    assert.match(up.stdout, /^main-1 {2}\| did it$/m);
    assert.match(up.stdout, /^main-1 exited with code 3$/m);
    assert.equal((await project.states())["job-side-1"], "exited");
    ok(await project.run("down"));
  });

  await t.step("without a stop all services that end by themselves end it", async () => {
    await project.write(`name: job
services:
  one: { image: base:1, command: echo first }
  two:
    image: base:1
    command: echo second
    depends_on: { one: { condition: service_completed_successfully } }
`);
    const lines = ok(await project.run("up")).split("\n");
    assert.ok(
      lines.includes("one-1  | first") && lines.includes("two-1  | second"),
      lines.join("\n"),
    );
    ok(await project.run("down"));
  });

  await t.step("what never gets healthy keeps others from starting, and stays", async () => {
    await project.write(`name: job
services:
  db:
    image: base:1
    command: sleep 1000
    stop_signal: SIGKILL
    healthcheck: { test: "false", interval: 100ms, retries: 2 }
  web: { image: base:1, depends_on: { db: { condition: service_healthy } } }
`);
    const up = await project.run("up", "-d");
    assert.equal(up.code, 1);
    assert.match(up.stderr, /container job-db-1 is unhealthy/);
    assert.deepEqual(await project.states(), { "job-db-1": "running" });
    ok(await project.run("down"));
  });

  await t.step("what cannot be honoured is an error that names the place", async () => {
    await project.write(
      "name: job\nservices:\n  one:\n    image: base:1\n    uts: host\n",
    );
    const up = await project.run("up", "-d");
    assert.equal(up.code, 1);
    assert.match(up.stderr, /compose\.yaml:5: services\.one\.uts: /);
    assert.deepEqual(await project.states(), {});
  });

  await t.step("a deployment of somebody else is not taken", async () => {
    ok(await server.svc(["deploy", "base:1", "--name", "job-one"]));
    await project.write("name: job\nservices: { one: { image: base:1 } }\n");
    const up = await project.run("up", "-d");
    assert.equal(up.code, 1);
    assert.match(up.stderr, /there is a deployment job-one already, of no project/);
    ok(await project.run("down"));
    assert.match(ok(await server.svc(["ps"])), /^job-one /m);
    ok(await server.svc(["rm", "job-one"]));
  });

  await t.step("create makes, start starts, wait waits", async () => {
    await project.write(
      "name: job\nservices: { one: { image: base:1, command: sh -c 'sleep 1; exit 5' } }\n",
    );
    ok(await project.run("create"));
    assert.deepEqual(await project.states(), { "job-one-1": "created" });
    ok(await project.run("start"));
    assert.equal((await project.run("wait", "one")).code, 5);
    ok(await project.run("down"));
  });

  await t.step("run: a container of its own, its output, input and exit code", async () => {
    await project.write(`name: job
services:
  db: { image: base:1, command: httpd -f -p 80, stop_signal: SIGKILL }
  one: { image: base:1, command: echo own, environment: { A: b }, depends_on: [db] }
`);
    assert.equal(ok(await project.run("run", "--rm", "one")), "own\n");
    const echo = ["run", "--rm", "-e", "C=d", "one", "sh", "-c", "echo $A$C"];
    assert.equal(ok(await project.run(...echo)), "bd\n");
    assert.equal((await project.run("run", "one", "sh", "-c", "exit 6")).code, 6);
    const states = await project.states();
    assert.equal(states["job-db-1"], "running");
    const left = Object.keys(states).filter((name) => name.startsWith("job-one-run-"));
    assert.equal(left.length, 1, "one was not to be removed");
    const input = { cwd: project.folder, stdin: "typed" };
    assert.equal(ok(await server.svc(["compose", "run", "--rm", "one", "cat"], input)), "typed");
    assert.notEqual((await project.run("run", "--rm", "one", "no-such-command")).code, 0);
    ok(await project.run("down"));
    assert.deepEqual(await project.states(), {});
  });

  await t.step(
    "build sections are built where the image is missing, and with --build",
    async () => {
      await project.write("FROM base:1\nARG WORD\nRUN echo $WORD > /word\n", "Dockerfile");
      const text = (word: string) =>
        `name: job
services:
  one:
    build: { context: ., args: { WORD: ${word} } }
    command: cat /word
`;
      await project.write(text("first"));
      assert.match(ok(await project.run("up")), /^one-1 {2}\| first$/m);
      await project.write(text("second"));
      assert.match(ok(await project.run("up")), /^one-1 {2}\| first$/m);
      assert.match(ok(await project.run("up", "--build")), /^one-1 {2}\| second$/m);
      ok(await project.run("down"));
    },
  );
});
