/** Builds of a server that cannot mount, where its registry shows the engine's images: a builder loads them there. */
import assert from "node:assert/strict";
import {
  type AnyEngine,
  BASE,
  NEEDS,
  startEngine,
  startFront,
  startPodmanEngine,
} from "./builder_engine.ts";
import { UNSTABLE_READY } from "../peers/namespace.ts";
import { PODMAN_COMMANDS, PODMAN_FILES } from "../peers/podman.ts";
import { tar } from "../../scripts/build/tar.ts";
import { eventually } from "../waits.ts";
import { e2eTest, type Server } from "./harness.ts";

const DOCKERFILE = `FROM ${BASE}\nCOPY file /file\nRUN cat /file; id -u\n`;

interface Stage {
  engine: AnyEngine;
  front: Server;
  context: string;
  /** How the server tells of it. */
  called: string;
}

async function withContext(fn: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-e2e-engine-builder-" });
  try {
    await Deno.writeTextFile(`${folder}/Dockerfile`, DOCKERFILE);
    await Deno.writeTextFile(`${folder}/file`, "of the caller\n");
    await fn(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const builderId = async ({ run }: AnyEngine) =>
  (await run("inspect", "-f", "{{.Id}}", "svc-builder")).stdout.trim();

async function loadsImages({ engine, front, context, called }: Stage): Promise<void> {
  const info = await (await fetch(`${front.url}/.svc/v1/info`)).json();
  assert.deepEqual([info.registryMode, info.build.at], ["host-native", "container"]);
  assert(info.deploy.engine.includes(called), info.deploy.engine);
  const names = ["app:v1", `localhost:${front.port}/app:v2`, `127.0.0.1:${front.port}/app:v3`];
  for (const name of names) {
    const built = await front.svc(["build", "-t", name, "--progress", "plain", context]);
    assert.equal(built.code, 0, `${built.stderr}\n${front.log()}`);
    const { stdout } = await engine.run("run", "--rm", "--network", "none", name, "cat", "/file");
    assert.equal(stdout, "of the caller\n", name);
  }
  const archive = tar([
    { path: "Dockerfile", data: DOCKERFILE },
    { path: "file", data: "of the archive\n" },
  ]);
  const url = `${front.url}/.svc/v1/build?t=posted:v1`;
  const posted = await fetch(url, { method: "POST", body: archive });
  assert.match(await posted.text(), /"type":"result"/);
  const { stdout } = await engine.run(
    "run",
    "--rm",
    "--network",
    "none",
    "posted:v1",
    "cat",
    "/file",
  );
  assert.equal(stdout, "of the archive\n");
}

async function sharesTheEngine({ engine }: Stage): Promise<void> {
  const mounts = await engine.run("inspect", "-f", "{{json .Mounts}}", "svc-builder");
  const found: { Type: string; Source: string; Destination: string }[] = JSON.parse(mounts.stdout);
  assert.deepEqual(
    found.map(({ Type, Destination }) => [Type, Destination]).sort(),
    [["bind", "/var/run/docker.sock"], ["volume", "/var/lib/svc"]],
  );
  assert(found.some(({ Source }) => Source === engine.socket));
}

async function deploys({ engine, front }: Stage): Promise<void> {
  const spec = `${engine.folder}/app.json`;
  await Deno.writeTextFile(
    spec,
    JSON.stringify({ name: "app", image: "app:v1", command: ["sleep", "1000"] }),
  );
  const deployed = await front.svc(["deploy", "-f", spec]);
  assert.equal(deployed.code, 0, deployed.stderr);
  const { stdout } = await front.svc(["exec", "app", "cat", "/file"]);
  assert.equal(stdout, "of the caller\n");
}

/** The same server with a storage of its own: its builder pushes there. */
async function changesItsMode({ engine, context }: Stage): Promise<void> {
  const before = await builderId(engine);
  await using front = await startFront(engine, "storage");
  const built = await front.svc(["build", "-t", "app:v4", "--progress", "plain", context]);
  assert.equal(built.code, 0, built.stderr);
  assert.notEqual(await builderId(engine), before);
  const manifest = await fetch(`${front.url}/v2/app/manifests/v4`);
  await manifest.body?.cancel();
  assert.equal(manifest.status, 200);
  const { stdout } = await engine.run("images", "-q", "app:v4");
  assert.equal(stdout, "", "it was not loaded into the engine");
}

async function nativeBuilder(
  t: Deno.TestContext,
  called: string,
  started: Promise<AnyEngine>,
): Promise<void> {
  await using engine = await started;
  await withContext(async (context) => {
    {
      await using front = await startFront(engine, "native", {}, { storage: false });
      const stage = { engine, front, context, called };
      await t.step("a build is loaded into the engine, by whatever name", () => loadsImages(stage));
      await t.step("the builder has the engine's socket", () => sharesTheEngine(stage));
      await t.step("the image runs at once", () => deploys(stage));
    }
    const stage = { engine, context } as Stage;
    await t.step("with a storage, the server makes another builder", () => changesItsMode(stage));
  });
}

const NAME = "a server that shows its engine's images has them built and loaded there:";
e2eTest(
  `${NAME} Docker 20.10`,
  NEEDS,
  (t) => nativeBuilder(t, "Docker daemon 20.10", startEngine()),
);
e2eTest(
  `${NAME} Docker 28 with containerd's image store`,
  { ...NEEDS, files: [...NEEDS.files, UNSTABLE_READY] },
  (t) => nativeBuilder(t, "Docker daemon 28", startEngine({ version: "28", store: "containerd" })),
);
const PODMAN_NEEDS = {
  root: true,
  commands: [...NEEDS.commands, ...PODMAN_COMMANDS],
  files: [...NEEDS.files, ...PODMAN_FILES],
};
e2eTest(
  `${NAME} podman 4.3`,
  PODMAN_NEEDS,
  (t) => nativeBuilder(t, "podman 4.3", startPodmanEngine()),
);
e2eTest(
  `${NAME} podman 5`,
  { ...PODMAN_NEEDS, files: [...NEEDS.files, UNSTABLE_READY] },
  (t) => nativeBuilder(t, "podman 5", startPodmanEngine({ version: "5" })),
);
for (const version of ["4.3", "5"] as const) {
  e2eTest(
    `a server that may not mount says at once that a rootless podman ${version} gives it no builder`,
    {
      ...PODMAN_NEEDS,
      files: version === "5" ? [...NEEDS.files, UNSTABLE_READY] : PODMAN_NEEDS.files,
    },
    async () => {
      await using engine = await startPodmanEngine({ version, rootless: true });
      await using front = await startFront(engine, "native", {}, { storage: false });
      const why = /Cannot start a builder: .*podman, which is rootless, could give RUN no network/;
      const { build } = await (await fetch(`${front.url}/.svc/v1/info`)).json();
      assert.equal(build.at, "nowhere");
      assert.match(build.reason, why);
      await eventually("its log tells it", () => why.test(front.log()));
      await withContext(async (context) => {
        const built = await front.svc(["build", "-t", "app:v1", context]);
        assert.equal(built.code, 1);
        assert.match(built.stderr, why);
        assert.match(built.stderr, /--rootless/);
      });
      const { stdout } = await engine.run("ps", "-aq");
      assert.equal(stdout, "");
    },
  );
}
