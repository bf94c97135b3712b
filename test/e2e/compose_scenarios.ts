/** Scenarios of `svc compose` that hold on every engine: each is run by the tests of several. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { eventually } from "../waits.ts";
import { freePort, type RunOutput, type Server } from "./harness.ts";

export function ok({ code, stdout, stderr }: RunOutput): string {
  assert.equal(code, 0, `exit code ${code}: ${stderr}${stdout}`);
  return stdout;
}

/** A folder with a Compose file, and `svc compose` in it. */
export class Project implements AsyncDisposable {
  readonly #server: Server;
  readonly folder: string;
  /** Variables of the caller. */
  readonly env: Record<string, string>;

  private constructor(server: Server, folder: string, env: Record<string, string>) {
    this.#server = server;
    this.folder = folder;
    this.env = env;
  }

  static async open(server: Server, env: Record<string, string> = {}): Promise<Project> {
    return new Project(server, await Deno.makeTempDir({ prefix: "svc-e2e-compose-" }), env);
  }

  async write(text: string, name = "compose.yaml"): Promise<void> {
    await Deno.writeTextFile(join(this.folder, name), text);
  }

  run(...args: string[]): Promise<RunOutput> {
    return this.#server.svc(["compose", ...args], { cwd: this.folder, env: this.env });
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
      interval: 200ms
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

/** From up to down, with the image base:1. */
export async function runShop(t: Deno.TestContext, server: Server): Promise<void> {
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
    // web is up as soon as it runs: it has no healthcheck.
    await eventually("the page", async () => await page() === "from db\n");
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
    await eventually("its end", async () => (await project.states())["shop-web-1"] === "exited");
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
}

const FILES = `name: kept
services:
  web:
    image: base:1
    command: sh -c "exec httpd -f -p 80"
    stop_signal: SIGKILL
    post_start:
      - command: ["sh", "-c", "echo $$WORD > /started"]
        environment: { WORD: hello }
    pre_stop:
      - command: ["sh", "-c", "cp /run/secrets/token /out/last"]
    volumes: [out:/out]
    configs:
      - plain
      - { source: script, target: /usr/local/bin/say, mode: 0550, uid: "7", gid: "8" }
    secrets: [token, { source: typed, target: other, mode: 0400 }]
configs:
  plain: { content: "a=$VALUE" }
  script: { file: ./say.sh }
secrets:
  token: { environment: TOKEN }
  typed: { file: ./typed }
volumes:
  out:
`;

/** Configs and secrets are files; hooks run after the start and before the stop. */
export async function runFiles(t: Deno.TestContext, server: Server): Promise<void> {
  await using project = await Project.open(server, { TOKEN: "s3cret", VALUE: "1" });
  await project.write(FILES);
  await project.write("#!/bin/sh\necho said\n", "say.sh");
  await project.write("typed\n", "typed");
  const inside = async (...command: string[]) => ok(await project.run("exec", "web", ...command));
  const start = async () => (await inside("cat", "/proc/1/stat")).split(" ")[21];

  await t.step("configs and secrets: contents, modes, owners; post_start has run", async () => {
    ok(await project.run("up", "-d"));
    assert.equal(await inside("cat", "/plain"), "a=1");
    assert.equal(await inside("/usr/local/bin/say"), "said\n");
    const stat = ["stat", "-c", "%a %u %g"];
    assert.equal(await inside(...stat, "/usr/local/bin/say"), "550 7 8\n");
    assert.equal(await inside(...stat, "/run/secrets/token"), "444 0 0\n");
    assert.equal(await inside("cat", "/run/secrets/token"), "s3cret");
    assert.equal(await inside(...stat, "/run/secrets/other"), "400 0 0\n");
    assert.equal(await inside("cat", "/started"), "hello\n");
    assert.notEqual((await project.run("exec", "web", "sh", "-c", "echo x > /plain")).code, 0);
  });

  await t.step("no answer of the server and nothing of its data has a secret", async () => {
    assert.doesNotMatch(ok(await server.svc(["status", "kept-web", "-o", "json"])), /s3cret/);
    const spec = await fetch(`${server.url}/.svc/v1/deployments/kept-web/spec`);
    assert.doesNotMatch(await spec.text(), /s3cret|czNjcmV0/);
    const found = await new Deno.Command("grep", {
      args: ["-rlE", "s3cret|czNjcmV0", server.dataDir, "--include=*.json", "--include=*.log"],
    }).output();
    assert.equal(new TextDecoder().decode(found.stdout), "");
    assert.doesNotMatch(server.log(), /s3cret|czNjcmV0/);
  });

  await t.step(
    "the same again changes nothing, another secret replaces the container",
    async () => {
      const before = await start();
      ok(await project.run("up", "-d"));
      assert.equal(await start(), before);
      project.env.TOKEN = "an0ther";
      ok(await project.run("up", "-d"));
      assert.equal(await inside("cat", "/run/secrets/token"), "an0ther");
    },
  );

  await t.step("pre_stop runs before the stop", async () => {
    ok(await project.run("stop"));
    ok(await project.run("start"));
    assert.equal(await inside("cat", "/out/last"), "an0ther");
  });

  await t.step("what fails after a start is an error; what is missing is told before", async () => {
    await project.write(FILES.replace("echo $$WORD > /started", "echo why >&2; exit 3"));
    const failed = await project.run("up", "-d", "--force-recreate");
    assert.equal(failed.code, 1, failed.stderr);
    assert.match(failed.stderr, /post_start of container kept-web-1 exited with 3: why/);
    delete project.env.TOKEN;
    const unset = await project.run("up", "-d");
    assert.notEqual(unset.code, 0);
    assert.match(unset.stderr, /compose\.yaml:\d+: secrets\.token: the variable TOKEN is not set/);
    project.env.TOKEN = "x";
    await project.write(FILES.replace("0400", "04755"));
    const special = await project.run("up", "-d");
    assert.match(special.stderr, /secrets\[1\]\.mode: .*no permissions up to 0777/);
  });
}
