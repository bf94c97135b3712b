/** What `svc compose` shows of a project, and services that a program of the caller's machine provides. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { eventually } from "../waits.ts";
import { ok, Project } from "./compose_scenarios.ts";
import { baseImage, e2eTest, startServer } from "./harness.ts";

const NEEDS = { root: true, commands: ["runc", "conmon", "iptables", "busybox", "skopeo"] };

/** The cells of a table's lines; columns are at least two spaces apart. */
const cells = (text: string) => text.trimEnd().split("\n").map((line) => line.split(/ {2,}/));

e2eTest(
  "compose: tables have docker compose's columns; providers set variables",
  NEEDS,
  async (t) => {
    await using server = await startServer();
    await baseImage(server, "base:1");
    const bin = await Deno.makeTempDir({ prefix: "svc-e2e-provider-" });
    await using project = await Project.open(server, { PATH: `${bin}:${Deno.env.get("PATH")}` });
    await Deno.writeTextFile(
      join(bin, "cloud"),
      `#!/bin/sh
[ "$2" = metadata ] && exit 1
echo "$3 $4 $5" >> ${bin}/log
echo '{"type":"setenv","message":"URL=http://far"}'
`,
      { mode: 0o755 },
    );
    await project.write(`name: look
services:
  db: { provider: { type: cloud, options: { kind: sql } } }
  web:
    image: base:1
    command: sh -c "echo at $$DB_URL; exec sleep 1000"
    stop_signal: SIGKILL
    depends_on: { db: { condition: service_healthy } }
  tool:
    build: { context: ., dockerfile_inline: "FROM base:1" }
    command: sleep 1000
    stop_signal: SIGKILL
    scale: 2
`);

    await t.step("up: what the provider says is in the environment of its dependents", async () => {
      const up = await project.run("--parallel", "1", "up", "-d", "--wait");
      ok(up);
      assert.equal((await project.run("--parallel", "x", "up", "-d")).code, 2);
      assert.match(up.stderr, /^ db {2}Created\n[^]* Container look-web-1 {2}Creating$/m);
      await eventually(
        "the variable in its log",
        async () =>
          /^web-1 {2}\| at http:\/\/far$/m.test((await project.run("logs", "web")).stdout),
      );
      assert.equal(
        ok(await project.run("run", "--rm", "web", "sh", "-c", "echo $DB_URL")),
        "http://far\n",
      );
      await project.write("A=from file\n", "vars");
      const words = [
        "run",
        "--rm",
        "--no-deps",
        "--env-from-file",
        "vars",
        "web",
        "sh",
        "-c",
        "echo $A",
      ];
      assert.equal(ok(await project.run(...words)), "from file\n");
      assert.notEqual((await project.run("run", "db", "true")).code, 0);
      const tar = join(project.folder, "out.tar");
      ok(await project.run("export", "-o", tar, "web"));
      const listed = await new Deno.Command("tar", { args: ["-tf", tar] }).output();
      assert.match(new TextDecoder().decode(listed.stdout), /^(\.\/)?bin\/busybox$/m);
      ok(await project.run("cp", "--all", "vars", "tool:/vars"));
      for (const index of ["1", "2"]) {
        ok(await project.run("exec", "-T", "--index", index, "tool", "cat", "/vars"));
      }
    });

    await t.step("ps, images, top, stats", async () => {
      const [head, row] = cells(ok(await project.run("ps", "web")));
      assert.deepEqual(head.slice(0, 6), [
        "NAME",
        "IMAGE",
        "COMMAND",
        "SERVICE",
        "CREATED",
        "STATUS",
      ]);
      assert.match(row.slice(0, 4).join(" "), /^look-web-1 base:1 "sh -c 'echo at \$DB_…" web$/);
      const [titles, image] = cells(ok(await project.run("images", "web")));
      assert.deepEqual(
        titles,
        ["CONTAINER", "REPOSITORY", "TAG", "PLATFORM", "IMAGE ID", "SIZE", "CREATED"],
      );
      assert.deepEqual(image.slice(0, 3), ["look-web-1", "base", "1"]);
      assert.match(image.slice(3).join(" "), /^linux\/\w+ [0-9a-f]{12} [\d.]+[kM]B .+ ago$|N\/A$/);
      const top = ok(await project.run("top"));
      assert.match(top, /^SERVICE {2}# +\w+/);
      assert.match(top, /^web {6}1 .* sleep 1000$/m);
      const [columns, used] = cells(ok(await project.run("stats", "--no-stream", "web")));
      assert.deepEqual(columns.slice(0, 4), ["CONTAINER ID", "NAME", "CPU %", "MEM USAGE / LIMIT"]);
      assert.equal(used[1], "look-web-1");
    });

    await t.step("down: the provider takes away what it made", async () => {
      const down = await project.run("down", "--rmi", "local");
      ok(down);
      assert.match(down.stderr, /^ Image look-tool {2}Removed$/m);
      const again = await project.run("up", "-d", "--no-build", "tool");
      assert.notEqual(again.code, 0, "its image is gone");
      ok(await project.run("down"));
      assert.match(down.stderr, /^ db {2}Removed$/m);
      assert.deepEqual(
        await Deno.readTextFile(join(bin, "log")),
        "up --kind=sql db\n".repeat(2) + "down --kind=sql db\n".repeat(2),
      );
    });

    await t.step("a provider that is a path is refused before anything runs", async () => {
      await project.write("name: look\nservices:\n  db: { provider: { type: ./cloud } }\n");
      const up = await project.run("up", "-d");
      assert.equal(up.code, 1);
      assert.match(
        up.stderr,
        /compose\.yaml:3: services\.db\.provider\.type: .*not a valid provider/,
      );
    });
    await Deno.remove(bin, { recursive: true });
  },
);
