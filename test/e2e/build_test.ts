/** `svc build` against `svc serve`: what a person sees, what lands in the registry, and what a crash leaves. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { eventually } from "../waits.ts";
import { inspect, withContext, writeFiles } from "./build_helpers.ts";
import { baseImage, e2eTest, runTool, type Server, startServer } from "./harness.ts";

const NEEDS = {
  root: true,
  commands: ["runc", "skopeo", "umoci"],
  files: ["/bin/busybox"],
};

/** The image's files and configuration, unpacked by umoci. */
async function unpack(server: Server, name: string, work: (bundle: string) => Promise<void>) {
  const directory = await Deno.makeTempDir({ prefix: "svc-e2e-unpack-" });
  try {
    await runTool("skopeo", [
      "--insecure-policy",
      "copy",
      "--quiet",
      "--src-tls-verify=false",
      `docker://${server.host}/${name}`,
      `oci:${directory}/layout:it`,
    ]);
    const bundle = join(directory, "bundle");
    await runTool("umoci", ["unpack", "--image", `${directory}/layout:it`, bundle]);
    await work(bundle);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

async function mountsBelow(directory: string): Promise<string[]> {
  const table = await Deno.readTextFile("/proc/self/mountinfo");
  return table.split("\n").map((line) => line.split(" ")[4] ?? "")
    .filter((target) => target.startsWith(`${directory}/`));
}

/** Processes of this host whose command line holds `text`. */
async function processesWith(text: string): Promise<string[]> {
  const found: string[] = [];
  for await (const { name } of Deno.readDir("/proc")) {
    if (!/^\d+$/.test(name) || Number(name) === Deno.pid) continue;
    const line = await Deno.readTextFile(`/proc/${name}/cmdline`).catch(() => "");
    if (line.includes(text)) found.push(line.replaceAll("\0", " "));
  }
  return found;
}

/** The builder's working folders, which hold nothing while no build runs but empty mount points. */
function leftovers(server: Server): string[] {
  const within = (path: string) =>
    [...Deno.readDirSync(join(server.dataDir, "build", path))].map(({ name }) => `${path}/${name}`);
  return ["mnt", "tmp", "contexts", "bundles"].flatMap((name) => {
    try {
      const found = within(name);
      return name === "mnt" ? found.flatMap(within) : found;
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return [];
      throw error;
    }
  });
}

/** A build's client may hear of its end a moment before that. */
const tidy = (server: Server) =>
  eventually(
    "tidying up",
    async () => leftovers(server).length === 0 && (await mountsBelow(server.dataDir)).length === 0,
  );

const APP = (base: string) => ({
  Dockerfile: [
    `FROM ${base} AS make`,
    "ARG WHO=nobody",
    "WORKDIR /work",
    "COPY src ./src",
    'RUN mkdir out && cat src/part-* > out/page && echo "for $WHO" >> out/page',
    "",
    `FROM ${base}`,
    "COPY --from=make /work/out /srv/app",
    "RUN --mount=type=cache,target=/c echo built >> /c/log && seq 1 100000 > /numbers",
    "ENV MODE=production",
    "WORKDIR /srv/app",
    "EXPOSE 8080",
    'CMD ["cat", "page"]',
  ].join("\n"),
  ".dockerignore": "src/secret\n",
  "src/part-1": "one\n",
  "src/part-2": "two\n",
  "src/secret": "do not copy\n",
  // Large enough to be unpacked and copied by a Worker, which the executable has to find.
  "src/large": "large ".repeat(1 << 19),
});

e2eTest("build: an image lands in the registry; again it is cached", NEEDS, async () => {
  await using server = await startServer();
  const base = await baseImage(server, "base:1");
  await withContext(APP(base.name), async (directory) => {
    const names = ["-t", "app:v1", "-t", "app:latest"];
    const args = ["build", "--reproducible", "--build-arg", "WHO=me", ...names, directory];
    const first = await server.svc(args);
    assert.equal(first.code, 0, first.stderr);
    const { Digest, Layers } = await inspect(server, "app:v1");
    assert.equal((await inspect(server, "app:latest")).Digest, Digest);
    assert.equal(Layers.length, 4, "base, COPY, RUN, WORKDIR");
    await unpack(server, "app:v1", async (bundle) => {
      const page = join(bundle, "rootfs/srv/app/page");
      assert.equal(await Deno.readTextFile(page), "one\ntwo\nfor me\n");
      // More than is packed without a Worker, which the executable has to find.
      assert.equal((await Deno.stat(join(bundle, "rootfs/numbers"))).size, 588895);
      const config = JSON.parse(await Deno.readTextFile(join(bundle, "config.json")));
      assert.deepEqual(config.process.args, ["cat", "page"]);
      assert.equal(config.process.cwd, "/srv/app");
      assert.ok(config.process.env.includes("MODE=production"));
    });
    const again = await server.svc(args);
    assert.equal(again.code, 0, again.stderr);
    assert.match(again.stderr + again.stdout, /CACHED/);
    assert.equal((await inspect(server, "app:v1")).Digest, Digest);
    const anew = await server.svc([...args, "--no-cache"]);
    assert.equal(anew.code, 0, anew.stderr);
    assert.equal((await inspect(server, "app:v1")).Digest, Digest, "the same input, other digest");
    // The cache outlives the server.
    await server.restart();
    const later = await server.svc(args);
    assert.match(later.stderr + later.stdout, /CACHED/);
    assert.equal((await inspect(server, "app:v1")).Digest, Digest);
    await tidy(server);
  });
});

e2eTest("build: a failing step shows line, command, output and exit code", NEEDS, async () => {
  await using server = await startServer();
  const base = await baseImage(server, "base:1");
  const files = { Dockerfile: `FROM ${base.name}\n\nRUN echo some words; exit 42\n` };
  await withContext(files, async (directory) => {
    const failed = await server.svc(["build", "-t", "app", directory]);
    assert.equal(failed.code, 1);
    const shown = failed.stderr + failed.stdout;
    for (const part of [/Dockerfile:3/, /RUN echo some words; exit 42/, /some words\n/, /42/]) {
      assert.match(shown, part);
    }
    await writeFiles(directory, { Dockerfile: `FROM ${base.name}\nRUN --security=insecure x\n` });
    const refused = await server.svc(["build", directory]);
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, /line 2: RUN --security=insecure: the build is not allowed/i);
    await writeFiles(directory, { Dockerfile: "FROM nothing-of-that-name\n" });
    const unknown = await server.svc(["build", directory]);
    assert.equal(unknown.code, 1);
    assert.match(unknown.stderr, /nothing-of-that-name/);
  });
});

e2eTest("build: kill -9 in the middle leaves nothing that lasts", NEEDS, async () => {
  await using server = await startServer();
  const base = await baseImage(server, "base:1");
  const marker = `1000${Deno.pid}`;
  const files = {
    Dockerfile: `FROM ${base.name}\nRUN echo kept > /kept\nRUN echo begun; sleep ${marker}\n`,
  };
  await withContext(files, async (directory) => {
    const cut = server.svc(["build", "-t", "app", directory]);
    await eventually("the step", async () => (await processesWith(`sleep\0${marker}`)).length > 0);
    await server.kill9();
    assert.notEqual((await cut).code, 0);
    await server.restart();
    // Without a build: the restart itself ends what the crash left running.
    await eventually(
      "the end of the step",
      async () => (await processesWith(`sleep\0${marker}`)).length === 0,
    );
    await writeFiles(directory, {
      Dockerfile: files.Dockerfile.replace(`sleep ${marker}`, "echo over"),
    });
    const again = await server.svc(["build", "-t", "app", directory]);
    assert.equal(again.code, 0, again.stderr);
    assert.match(again.stderr + again.stdout, /CACHED[^\n]*kept|kept[^]*CACHED/);
    await tidy(server);
    await inspect(server, "app:latest");
  });
});

e2eTest("build: a client that goes away ends its build", NEEDS, async () => {
  await using server = await startServer();
  const base = await baseImage(server, "base:1");
  const marker = `2000${Deno.pid}`;
  const files = { Dockerfile: `FROM ${base.name}\nRUN sleep ${marker}\n` };
  await withContext(files, async (directory) => {
    const abort = new AbortController();
    const build = server.svc(["build", directory], { signal: abort.signal });
    await eventually("the step", async () => (await processesWith(`sleep\0${marker}`)).length > 0);
    abort.abort();
    await build;
    await eventually(
      "the end of the step",
      async () => (await processesWith(`sleep\0${marker}`)).length === 0,
    );
    await tidy(server);
  });
});
