/** A server on a Docker daemon: its registry is a view of the daemon's images, and its builds go into them. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { busyboxArchive } from "../peers/base_image.ts";
import { startContainerd } from "../peers/containerd.ts";
import { type DockerdOptions, type DockerdPeer, startDockerd } from "../peers/dockerd.ts";
import { UNSTABLE_READY } from "../peers/namespace.ts";
import {
  e2eTest,
  EXECUTABLE,
  runTool,
  type Server,
  type ServerOptions,
  startServer,
} from "./harness.ts";

const COMMANDS = [
  "dockerd",
  "docker",
  "busybox",
  "unshare",
  "nsenter",
  "skopeo",
  "podman",
  "ctr",
  "containerd",
];
const PLAIN = "--src-tls-verify=false";

interface Fixture {
  folder: string;
  daemon: DockerdPeer;
  server(options?: ServerOptions): Promise<Server>;
}

async function withDaemon(options: DockerdOptions, work: (fixture: Fixture) => Promise<void>) {
  const folder = await Deno.makeTempDir({ prefix: "svc-view-e2e-" });
  try {
    await using daemon = await startDockerd(join(folder, "docker"), options);
    await busyboxArchive(join(folder, "root.tar"));
    await daemon.docker("import", join(folder, "root.tar"), "base:1");
    await work({
      folder,
      daemon,
      server: ({ env, ...rest } = {}) =>
        startServer({
          env: { SVC_DEPLOY_BACKEND: "dockerhost", DOCKER_HOST: daemon.host, ...env },
          ...rest,
        }),
    });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const skopeo = async (...args: string[]) =>
  (await runTool("skopeo", ["--insecure-policy", ...args])).stdout.trim();

async function digestOf(server: Server, name: string): Promise<string> {
  return await skopeo(
    "inspect",
    "--no-tags",
    "--tls-verify=false",
    "--format",
    "{{.Digest}}",
    `docker://${server.host}/${name}`,
  );
}

async function json<T>(url: string): Promise<T> {
  const answer = await fetch(url);
  assert.equal(answer.status, 200, url);
  return await answer.json();
}

async function write(folder: string, dockerfile: string): Promise<string> {
  await Deno.mkdir(folder, { recursive: true });
  await Deno.writeTextFile(join(folder, "Dockerfile"), dockerfile);
  return folder;
}

const BUILT = `FROM base:1
RUN echo built > /built
CMD ["/bin/busybox", "sleep", "1000"]
`;

async function pulledByEverybody({ folder }: Fixture, server: Server): Promise<void> {
  const digest = await digestOf(server, "app:v1");
  const name = `${server.host}/app:v1`;
  await skopeo("copy", "-q", PLAIN, `docker://${name}`, `dir:${folder}/dir`);
  await skopeo(
    "copy",
    "-q",
    PLAIN,
    `docker://${server.host}/app@${digest}`,
    `oci:${folder}/oci:app`,
  );
  const places = ["--root", join(folder, "podman"), "--runroot", join(folder, "podman-run")];
  const podman = ["--storage-driver", "vfs", ...places];
  await runTool("podman", [...podman, "pull", "--tls-verify=false", name]);
  await runTool("podman", [...podman, "rmi", name]);
  // Daemons that do not have it.
  await using other = await startDockerd(join(folder, "other"));
  await other.docker("pull", name);
  const known = await other.docker("inspect", "-f", "{{index .RepoDigests 0}}", name);
  assert.equal(known.stdout.trim(), `${server.host}/app@${digest}`);
  await Deno.mkdir(join(folder, "containerd"));
  await using containerd = await startContainerd(join(folder, "containerd"));
  const ctr = (...args: string[]) => runTool("ctr", ["-a", containerd.address, ...args]);
  await ctr("images", "pull", "--plain-http", "--snapshotter", "native", name);
  assert.ok((await ctr("images", "list")).stdout.includes(digest));
}

const DAEMONS: DockerdOptions[] = [
  { version: "20.10" },
  { version: "28" },
  { version: "28", store: "containerd" },
];

for (const options of DAEMONS) {
  const files = options.version === "28" ? [EXECUTABLE, UNSTABLE_READY] : [EXECUTABLE];
  const name = `registry view: dockerd ${options.version}, ${options.store ?? "graph"} store`;
  e2eTest(
    name,
    { root: true, commands: COMMANDS, files },
    (t) =>
      withDaemon(options, async (fixture) => {
        const { folder, daemon } = fixture;
        await using server = await fixture.server();
        const context = await write(join(folder, "context"), BUILT);

        await t.step("a build finds the daemon's images, and its result is one", async () => {
          const built = await server.svc(["build", "-t", "app:v1", context]);
          assert.equal(built.code, 0, built.stderr);
          const { stdout } = await daemon.docker("images", "--format", "{{.Repository}}:{{.Tag}}");
          assert.deepEqual(stdout.trim().split("\n").sort(), ["app:v1", "base:1"]);
          const again = await server.svc(["build", "-t", `${server.host}/app:v2`, context]);
          assert.equal(again.code, 0, again.stderr);
          assert.match(again.stderr + again.stdout, /CACHED/);
          for (const name of ["app:v2", `${server.host}/app:v2`]) {
            await daemon.docker("inspect", name);
          }
        });

        await t.step("catalog, tags and digests", async () => {
          const { repositories } = await json<{ repositories: string[] }>(
            `${server.url}/v2/_catalog`,
          );
          assert.deepEqual(repositories, ["app", "base"]);
          const { tags } = await json<{ tags: string[] }>(`${server.url}/v2/app/tags/list`);
          assert.deepEqual(tags, ["v1", "v2"]);
          const digest = await digestOf(server, "app:v1");
          assert.equal(await digestOf(server, "app:v2"), digest);
          await server.restart();
          assert.equal(await digestOf(server, "app:v1"), digest);
        });

        await t.step("skopeo, podman, docker and containerd pull", () =>
          pulledByEverybody(fixture, server));

        await t.step("a push is refused, with what to set", async () => {
          const answer = await fetch(`${server.url}/v2/app/blobs/uploads/`, { method: "POST" });
          assert.equal(answer.status, 405);
          const { errors: [{ code, message }] } = await answer.json();
          assert.equal(code, "UNSUPPORTED");
          assert.match(message, /SVC_REGISTRY_SOURCE=off, or with --storage/);
        });

        await t.step("info and doctor say what the registry shows", async () => {
          const info = await server.svc(["info"]);
          assert.match(info.stdout, /Registry mode: host-native/);
          const doctor = await server.svc(["doctor"]);
          assert.match(doctor.stdout, /images of dockerhost, and takes no pushes/);
          await server.logged(/"?registry"?[:=]"?host-native/);
        });

        await t.step(
          "a daemon that is away: 503 with the reason, and then again its images",
          async () => {
            await daemon.stop();
            for (const path of ["/v2/", "/v2/_catalog", "/v2/app/manifests/v1"]) {
              const answer = await fetch(`${server.url}${path}`);
              assert.equal(answer.status, 503, path);
              assert.match((await answer.json()).errors[0].message, /the Docker daemon/);
            }
            await server.restart();
            assert.equal((await fetch(`${server.url}/v2/`)).status, 503);
            await daemon.start();
            assert.match(await digestOf(server, "app:v1"), /^sha256:/);
          },
        );
      }),
  );
}

const needs = { root: true, commands: COMMANDS, files: [EXECUTABLE] };

e2eTest(
  "registry view: a deployment of what the daemon has reads and pulls nothing",
  needs,
  () =>
    withDaemon({}, async ({ daemon, folder, server: start }) => {
      await using server = await start();
      await daemon.docker("tag", "base:1", "ghcr.io/org/base:1");
      const spec = join(folder, "app.yaml");
      for (const image of ["base:1", "ghcr.io/org/base:1", `${server.host}/base:1`]) {
        await Deno.writeTextFile(
          spec,
          `name: app\nimage: ${image}\ncommand: [/bin/busybox, sleep, "1000"]\nstopSignal: SIGKILL\n`,
        );
        const done = await server.svc(["deploy", "-f", spec]);
        assert.equal(done.code, 0, done.stderr);
        const cache = join(server.dataDir, "dockerhost/exports");
        const read = await Array.fromAsync(Deno.readDir(cache)).catch(() => []);
        assert.deepEqual(read, [], image);
      }
    }),
);

e2eTest(
  "registry view: with --storage pushes are taken, and the daemon's images are behind them",
  needs,
  () =>
    withDaemon({}, async ({ daemon, folder, server: start }) => {
      await using server = await start({ args: ["--storage", join(folder, "storage")] });
      const theirs = await digestOf(server, "base:1");
      await skopeo("copy", "-q", PLAIN, `docker://${server.host}/base:1`, `dir:${folder}/dir`);
      await skopeo(
        "copy",
        "-q",
        "--dest-tls-verify=false",
        `dir:${folder}/dir`,
        `docker://${server.host}/pushed:1`,
      );
      assert.equal(await digestOf(server, "pushed:1"), theirs);
      const { repositories } = await json<{ repositories: string[] }>(`${server.url}/v2/_catalog`);
      assert.deepEqual(repositories, ["base", "pushed"]);
      const built = await server.svc([
        "build",
        "-t",
        "app:v1",
        await write(join(folder, "c"), BUILT),
      ]);
      assert.equal(built.code, 0, built.stderr);
      assert.ok(!(await daemon.docker("images")).stdout.includes("app"));
      assert.match(await digestOf(server, "app:v1"), /^sha256:/);
      assert.match((await server.svc(["info"])).stdout, /Registry mode: union/);
      await daemon.stop();
      assert.match(await digestOf(server, "pushed:1"), /^sha256:/);
      await skopeo(
        "copy",
        "-q",
        "--dest-tls-verify=false",
        `dir:${folder}/dir`,
        `docker://${server.host}/later:1`,
      );
    }),
);

e2eTest(
  "registry view: off keeps the store, and what excludes the view is refused at the start",
  needs,
  () =>
    withDaemon({}, async ({ server: start }) => {
      await using server = await start({ env: { SVC_REGISTRY_SOURCE: "off" } });
      assert.deepEqual(await json(`${server.url}/v2/_catalog`), { repositories: [] });
      const answer = await fetch(`${server.url}/v2/app/blobs/uploads/`, { method: "POST" });
      assert.equal(answer.status, 202);
      assert.match((await server.svc(["info"])).stdout, /Registry mode: store/);
      const excluding = [["SVC_REGISTRY_MIRROR", "r.example"], ["SVC_DEPLOY_BACKEND", "bare"]];
      for (const [name, value] of excluding) {
        const env = { SVC_REGISTRY_SOURCE: "host-native", [name]: value };
        await assert.rejects(start({ env }), /Cannot use SVC_REGISTRY_/);
      }
    }),
);

e2eTest(
  "registry view: who may not pull reads none of the daemon's images",
  needs,
  () =>
    withDaemon({}, async ({ server: start }) => {
      const token = "the-token-of-this-test";
      const paths = ["/v2/", "/v2/_catalog", "/v2/base/tags/list", "/v2/base/manifests/1"];
      const statuses = (server: Server, headers: Record<string, string> = {}) =>
        Promise.all(paths.map(async (path) => {
          const answer = await fetch(`${server.url}${path}`, { headers });
          await answer.body?.cancel();
          return answer.status;
        }));
      {
        await using server = await start({ env: { SVC_AUTH_TOKEN: token } });
        assert.deepEqual(await statuses(server), [401, 401, 401, 401]);
        const known = { authorization: `Bearer ${token}` };
        assert.deepEqual(await statuses(server, known), [200, 200, 200, 200]);
      }
      const env = { SVC_AUTH_TOKEN: token, SVC_REGISTRY_ANONYMOUS_PULL: "1" };
      await using server = await start({ env });
      await server.logged(/anyone who reaches this server may read all images of the engine/);
    }),
);
