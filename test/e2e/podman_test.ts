/** A server on podman: what it refuses at its start, and its registry as a view of podman's images. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { busyboxArchive } from "../peers/base_image.ts";
import { removeFolder } from "../peers/cleanup.ts";
import { UNSTABLE_READY } from "../peers/namespace.ts";
import { startDockerd } from "../peers/dockerd.ts";
import { PODMAN_COMMANDS, PODMAN_FILES, startPodman, writePodman } from "../peers/podman.ts";
import { eventually, PATIENCE_MS } from "../waits.ts";
import { e2eTest, freePort, runTool, type Server, startServer, svc } from "./harness.ts";

/** By engines that do not have it. */
async function pulledByOthers(server: Server, folder: string): Promise<void> {
  const name = `${server.host}/base:1`;
  const places = ["--root", join(folder, "podman"), "--runroot", join(folder, "podman-run")];
  const podman = ["--storage-driver", "vfs", ...places];
  await runTool("podman", [...podman, "pull", "--tls-verify=false", name]);
  await runTool("podman", [...podman, "rmi", name]);
  await using other = await startDockerd(join(folder, "other"));
  await other.docker("pull", name);
}

/** A server with a storage of its own besides. */
async function union(socket: string, folder: string, theirs: string | null): Promise<void> {
  await using server = await startServer({
    args: ["--storage", join(folder, "storage")],
    env: { SVC_DEPLOY_BACKEND: "podman", SVC_PODMAN_SOCKET: socket },
  });
  await runTool("skopeo", [
    ...["--insecure-policy", "copy", "-q", "--dest-tls-verify=false", `dir:${folder}/pulled`],
    `docker://${server.host}/pushed:1`,
  ]);
  const catalog = await (await fetch(`${server.url}/v2/_catalog`)).json();
  assert.deepEqual(catalog.repositories, ["base", "made", "pushed"]);
  const digest = async (name: string) =>
    (await fetch(`${server.url}/v2/${name}/manifests/1`, { method: "HEAD" }))
      .headers.get("docker-content-digest");
  assert.equal(await digest("base"), theirs);
  // On its way in it was compressed.
  assert.match(await digest("pushed") ?? "", /^sha256:/);
  assert.match((await server.svc(["info"])).stdout, /Registry mode: union/);
}

e2eTest(
  "podman: a server with neither a socket nor a service, or with both, does not start",
  {},
  async () => {
    const folder = await Deno.makeTempDir({ prefix: "svc-e2e-podman-" });
    try {
      const start = (env: Record<string, string>) =>
        svc(["serve", "--data-dir", folder, "--addr", `127.0.0.1:${freePort()}`], {
          env: { SVC_DEPLOY_BACKEND: "podman", ...env },
          signal: AbortSignal.timeout(PATIENCE_MS),
        });
      const neither = await start({});
      assert.equal(neither.code, 2, neither.stderr);
      assert.match(neither.stderr, /neither SVC_PODMAN_SOCKET nor SVC_PODMAN_SERVICE is set/);
      const both = await start({
        SVC_PODMAN_SOCKET: "/run/podman/podman.sock",
        SVC_PODMAN_SERVICE: "1",
        // Nothing is looked for.
        CONTAINER_HOST: "unix:///run/podman/podman.sock",
      });
      assert.equal(both.code, 2, both.stderr);
      assert.match(both.stderr, /SVC_PODMAN_SOCKET and SVC_PODMAN_SERVICE exclude each other/);
      const other = await start({ SVC_PODMAN_SOCKET: "npipe:////./pipe/podman" });
      assert.equal(other.code, 2, other.stderr);
      assert.match(other.stderr, /SVC_PODMAN_SOCKET/);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
);

for (const version of ["4.3", "5"] as const) {
  const files = version === "5" ? [UNSTABLE_READY] : PODMAN_FILES;
  const needs = {
    root: true,
    commands: [...PODMAN_COMMANDS, "skopeo", "dockerd", "docker"],
    files,
  };
  e2eTest(
    `podman ${version}: its images are pulled, pushes are refused, builds are loaded`,
    needs,
    async () => {
      await using peer = await startPodman({ version });
      const folder = await Deno.makeTempDir({ prefix: "svc-e2e-podman-" });
      try {
        const archive = join(folder, "root.tar");
        await busyboxArchive(archive);
        await peer.podman("import", archive, "docker.io/library/base:1");
        await using server = await startServer({
          env: { SVC_DEPLOY_BACKEND: "podman", SVC_PODMAN_SOCKET: peer.socket },
        });
        const source = `docker://${new URL(server.url).host}/base:1`;
        const digest = async () =>
          (await fetch(`${server.url}/v2/base/manifests/1`, { method: "HEAD" }))
            .headers.get("docker-content-digest");
        const first = await digest();
        await runTool("skopeo", [
          ...["--insecure-policy", "copy", "--src-tls-verify=false", source],
          `dir:${folder}/pulled`,
        ]);
        assert.equal(await digest(), first);
        const push = await fetch(`${server.url}/v2/base/blobs/uploads/`, { method: "POST" });
        assert.equal(push.status, 405);
        await push.body?.cancel();
        const context = join(folder, "context");
        await Deno.mkdir(context);
        await Deno.writeTextFile(
          join(context, "Dockerfile"),
          "FROM base:1\nCOPY Dockerfile /made\n",
        );
        const built = await svc(["build", "-t", "made:1", context], {
          env: { SVC_SERVER: server.url },
        });
        assert.equal(built.code, 0, built.stderr);
        const { stdout } = await peer.podman(
          "run",
          "--rm",
          "made:1",
          "/bin/busybox",
          "cat",
          "/made",
        );
        assert.match(stdout, /^FROM base:1/);
        if (version === "4.3") {
          await pulledByOthers(server, folder);
          await union(peer.socket, folder, first);
        }
      } finally {
        await Deno.remove(folder, { recursive: true });
      }
    },
  );
}

e2eTest(
  "podman: the server's own service is started, started again, and ended; what is deployed outlives it",
  { root: true, commands: PODMAN_COMMANDS, files: PODMAN_FILES },
  async () => {
    const folder = await Deno.makeTempDir({ prefix: "svc-ps-" });
    const { bin, podman, servicePid } = await writePodman(folder);
    try {
      await busyboxArchive(join(folder, "root.tar"));
      await podman("import", join(folder, "root.tar"), "docker.io/library/base:1");
      const PATH = `${bin}:${Deno.env.get("PATH")}`;
      await using server = await startServer({
        env: { SVC_DEPLOY_BACKEND: "podman", SVC_PODMAN_SERVICE: "1", PATH },
      });
      const isThere = (pid: number) => Deno.stat(`/proc/${pid}`).then(() => true, () => false);
      const goes = (what: string, pid: number) =>
        eventually(`the end of ${what}`, async () => !await isThere(pid));
      const instance = async () => {
        const answer = await fetch(`${server.url}/.svc/v1/deployments/web`);
        const { instances: [{ state, startedAt, pid }] } = await answer.json();
        return { state, startedAt, pid };
      };
      const command = ["/bin/busybox", "sleep", "100000"];
      const spec = { name: "web", image: "base:1", networks: ["none"], stopSignal: "SIGKILL" };
      const stdin = JSON.stringify({ ...spec, command });
      const deployed = await server.svc(["deploy", "-f", "-"], { stdin });
      assert.equal(deployed.code, 0, deployed.stderr);
      const before = await instance();
      assert.equal(before.state, "running");
      const works = async () =>
        (await server.svc(["exec", "web", "/bin/busybox", "true"])).code === 0;
      assert.ok(await works());
      const first = await servicePid();
      Deno.kill(first, "SIGKILL");
      await eventually("another service", async () => await servicePid() !== first);
      await eventually("its answer", works);
      assert.deepEqual(await instance(), before);
      await server.stop();
      await goes("the server's service", await servicePid());
      assert.equal(await isThere(before.pid), true, "what is deployed does not");
      await server.restart();
      await eventually("its answer", works);
      assert.deepEqual(await instance(), before);
      const removed = await server.svc(["rm", "web"]);
      assert.equal(removed.code, 0, removed.stderr);
      await goes("the workload", before.pid);
    } finally {
      await podman("rm", "-af", "-t", "0");
      await removeFolder(folder);
    }
  },
);
