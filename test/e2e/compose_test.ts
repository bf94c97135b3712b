/** Compose files on a server: docker compose's commands, and what becomes of the services. */
import assert from "node:assert/strict";
import { eventually } from "../waits.ts";
import { ok, Project, runFiles, runShop } from "./compose_scenarios.ts";
import { baseImage, e2eTest, startServer } from "./harness.ts";

const NEEDS = { root: true, commands: ["runc", "conmon", "iptables", "busybox", "skopeo"] };

e2eTest("compose: services of a file, from up to down; files and hooks", NEEDS, async (t) => {
  await using server = await startServer();
  await baseImage(server, "base:1");
  await runShop(t, server);
  await runFiles(t, server);
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

  await t.step("who names a service makes its profiles active", async () => {
    await project.write("FROM base:1\n", "Dockerfile");
    await project.write(`name: job
services:
  web: { image: base:1, command: httpd -f -p 80, stop_signal: SIGKILL }
  seed: { build: ., command: echo seeded, profiles: [tools] }
  other: { image: base:1, command: sleep 1000, profiles: [tools] }
`);
    ok(await project.run("build", "seed"));
    assert.equal(ok(await project.run("run", "--rm", "seed")), "seeded\n");
    ok(await project.run("create", "seed"));
    assert.deepEqual(await project.states(), { "job-seed-1": "created" });
    ok(await project.run("up", "-d"));
    assert.deepEqual(Object.keys(await project.states()).sort(), ["job-seed-1", "job-web-1"]);
    assert.match(ok(await project.run("up", "--no-log-prefix", "seed")), /^seeded$/m);
    assert.equal((await project.run("up", "-d", "nobody")).code, 2);
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

e2eTest("compose: killed in the middle of up, it heals with the next one", NEEDS, async (t) => {
  await using server = await startServer();
  await baseImage(server, "base:1");
  await using project = await Project.open(server);
  const names = ["a", "b", "c", "d", "e"];
  await project.write(
    "name: hurt\nservices:\n" +
      names.map((name, index) =>
        `  ${name}:\n    image: base:1\n    command: sleep 1000\n    stop_signal: SIGKILL\n` +
        "    volumes: [data:/data]\n" +
        (index > 0 ? `    depends_on: [${names[index - 1]}]\n` : "")
      ).join("") + "volumes:\n  data:\n",
  );
  const wanted = Object.fromEntries(names.map((name) => [`hurt-${name}-1`, "running"]));
  /** Something of the project is there, and not all of it. */
  const begun = () =>
    eventually(
      "the first service",
      async () => /hurt-[a-e]/.test((await server.svc(["ps"])).stdout),
    );

  for (const victim of ["client", "server"] as const) {
    await t.step(`the ${victim} is killed`, async () => {
      const killing = new AbortController();
      const up = server.svc(["compose", "up", "-d"], {
        cwd: project.folder,
        signal: killing.signal,
      }).catch(() => {/* it was killed */});
      await begun();
      if (victim === "client") killing.abort();
      else await server.kill9();
      await up;
      if (victim === "server") await server.restart();
      ok(await project.run("up", "-d"));
      assert.deepEqual(await project.states(), wanted);
      ok(await project.run("down", "-v"));
      assert.deepEqual(await project.states(), {});
      assert.equal(ok(await server.svc(["volume", "ls", "-q"])), "");
      assert.doesNotMatch(ok(await server.svc(["network", "ls", "-q"])), /hurt/);
    });
  }
});
