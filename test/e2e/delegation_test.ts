/** Builds that another server carries out: SVC_BUILDER_URL in front of it, and why that is needed. */
import assert from "node:assert/strict";
import { baseImage, e2eTest, EXECUTABLE, startServer } from "./harness.ts";

const NEEDS = { root: true, commands: ["runc", "setpriv"], files: ["/bin/busybox"] };

async function withFolder(files: Record<string, string>, fn: (folder: string) => Promise<void>) {
  const folder = await Deno.makeTempDir({ prefix: "svc-e2e-delegation-" });
  try {
    for (const [path, text] of Object.entries(files)) {
      await Deno.writeTextFile(`${folder}/${path}`, text);
    }
    await fn(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** A program that runs the executable as nobody, who may not mount. */
async function asNobody(folder: string): Promise<string> {
  const script = `${folder}/svc-as-nobody`;
  await Deno.chmod(folder, 0o755);
  await Deno.mkdir(`${folder}/home`);
  await Deno.chown(`${folder}/home`, 65534, 65534);
  await Deno.writeTextFile(
    script,
    `#!/bin/sh\nHOME=${folder}/home XDG_CACHE_HOME=${folder}/home exec setpriv --reuid 65534 ` +
      `--regid 65534 --clear-groups ${EXECUTABLE} "$@"\n`,
  );
  await Deno.chmod(script, 0o755);
  return script;
}

const FILES = {
  Dockerfile:
    "ARG BASE\nFROM $BASE\nCOPY file /file\nRUN --mount=type=secret,id=word cat /run/secrets/word | wc -c\n",
  file: "from the caller\n",
};

e2eTest("a server that cannot mount says so; with a builder's URL it builds", NEEDS, async () => {
  await using builder = await startServer();
  await baseImage(builder, "base:v1");
  await withFolder(FILES, async (folder) => {
    await withFolder({}, async (own) => {
      const executable = await asNobody(own);
      const data = async (name: string) => {
        await Deno.mkdir(`${own}/${name}`);
        await Deno.chown(`${own}/${name}`, 65534, 65534);
        return `${own}/${name}`;
      };
      const args = [
        "build",
        "-t",
        `${builder.host}/app:v1`,
        "--build-arg",
        `BASE=${builder.host}/base:v1`,
      ];
      const more = ["--secret", "id=word", "--progress", "plain", folder];
      const env = { word: "hush" };
      const none = {
        SVC_DEPLOY_BACKEND: "",
        DOCKER_HOST: "unix:///nonexistent/docker.sock",
        SVC_REGISTRY_SOURCE: "off",
      };
      {
        await using alone = await startServer({
          executable,
          dataDir: await data("alone"),
          env: none,
        });
        const refused = await alone.svc([...args, ...more], { env });
        assert.equal(refused.code, 1);
        assert.match(
          refused.stderr,
          /svc: Cannot build: failed to mount .*alone\/build: operation not permitted\n.*SVC_BUILDER_URL/,
        );
      }
      const dataDir = await data("front");
      await using front = await startServer({
        executable,
        dataDir,
        env: { ...none, SVC_BUILDER_URL: builder.url.replace("http", "ws") },
      });
      const built = await front.svc([...args, ...more], { env });
      assert.equal(built.code, 0, built.stderr);
      assert.match(built.stderr, /^#\d+ [\d.]+ 4$/m);
      const digest = /app:v1@(sha256:[0-9a-f]{64})/.exec(built.stdout)![1];
      const again = await builder.svc([...args, ...more], { env });
      assert.equal(again.stdout, `${builder.host}/app:v1@${digest}\n`);
      // A name without a registry is this server's, whoever builds.
      const bare = await front.svc(["build", "-t", "app:v2", ...args.slice(3), ...more], { env });
      const port = new URL(front.url).port;
      assert.equal(bare.stdout, `localhost:${port}/app:v2@${digest}\n`, bare.stderr);
      const manifest = await fetch(`${front.url}/v2/app/manifests/v2`);
      assert.equal(manifest.headers.get("docker-content-digest"), digest);
      await manifest.body?.cancel();
      // Nothing of the caller's came to rest here.
      const { code } = await new Deno.Command("grep", {
        args: ["-rqE", "from the caller|hush", dataDir],
      }).output();
      assert.equal(code, 1);
    });
  });
});
