/** `svc compose watch` and `up --watch`: what is changed here is changed in the containers. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { eventually } from "../waits.ts";
import { ok, Project } from "./compose_scenarios.ts";
import { baseImage, e2eTest, startServer } from "./harness.ts";

const NEEDS = { root: true, commands: ["runc", "conmon", "iptables", "busybox", "skopeo"] };

const FILE = `name: seen
services:
  web:
    build: .
    command: sh -c "echo started; exec sleep 1000"
    stop_signal: SIGKILL
    develop:
      watch:
        - { action: sync, path: ./src, target: /app/src, ignore: ["*.log"], initial_sync: true }
        - { action: sync+exec, path: ./page, target: /page, exec: { command: cp /page/a /copied } }
        - { action: sync+restart, path: ./conf, target: /conf }
        - { action: rebuild, path: ./word }
`;

e2eTest("compose: watch carries changes over, rebuilds and restarts", NEEDS, async (t) => {
  await using server = await startServer();
  await baseImage(server, "base:1");
  await using project = await Project.open(server);
  const write = async (path: string, text: string) => {
    await Deno.mkdir(join(project.folder, path, ".."), { recursive: true });
    await project.write(text, path);
  };
  await project.write(FILE);
  await write("Dockerfile", "FROM base:1\nCOPY word /word\n");
  for (const path of ["src/a", "src/x.log", "page/a", "conf/a", "word"]) await write(path, "first");
  await Deno.symlink("/etc/hostname", join(project.folder, "src/link"));

  const leaving = new AbortController();
  const watching = server.svc(["compose", "up", "--watch"], {
    cwd: project.folder,
    signal: leaving.signal,
  }).catch(() => {/* it is killed at the end */});
  const inside = async (script: string) =>
    (await project.run("exec", "-T", "web", "sh", "-c", script)).stdout.trim();
  const becomes = (what: string, script: string, wanted: string) =>
    eventually(what, async () => await inside(script) === wanted);

  await t.step(
    "initial_sync: the files are there, links as links, what is ignored is not",
    async () => {
      await becomes(
        "the first files",
        "cd /app/src && ls && [ -L link ] && echo linked",
        "a\nlink\nlinked",
      );
    },
  );

  await t.step("sync: new, changed and removed files and folders", async () => {
    await write("src/deep/er/b", "second");
    await write("src/a", "changed");
    await becomes("the new file", "cat /app/src/deep/er/b /app/src/a", "secondchanged");
    await Deno.remove(join(project.folder, "src/deep"), { recursive: true });
    await write("src/y.log", "unseen");
    await becomes("the removal", "ls /app/src", "a\nlink");
  });

  await t.step("sync+exec runs its command; sync+restart starts the container again", async () => {
    await write("page/a", "shown");
    await becomes("the command", "cat /copied", "shown");
    const before = (await inside("cat /proc/1/stat")).split(" ")[21];
    await write("conf/a", "second");
    await eventually("the restart", async () => {
      const now = (await inside("cat /proc/1/stat")).split(" ")[21];
      return now !== undefined && now !== before;
    });
    assert.equal(await inside("cat /conf/a"), "second");
  });

  await t.step("rebuild: another image, another container", async () => {
    await write("word", "second");
    await becomes("the rebuilt image", "cat /word", "second");
    // The container is another one, with the files of its image alone.
    await write("src/a", "third");
    await becomes("the file in the new container", "cat /app/src/a", "third");
  });

  leaving.abort();
  await watching;

  await t.step("what cannot be watched is an error before anything starts", async () => {
    ok(await project.run("down"));
    await project.write("name: seen\nservices: { web: { image: base:1 } }\n");
    for (const words of [["watch"], ["up", "--watch"]]) {
      const { code, stderr } = await project.run(...words);
      assert.notEqual(code, 0);
      assert.match(stderr, /none of the selected services is configured for watch/);
    }
    assert.deepEqual(await project.states(), {});
  });
});
