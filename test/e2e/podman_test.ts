/** A server on podman: what it refuses at its start, and its registry as a view of podman's images. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { busyboxArchive } from "../peers/base_image.ts";
import { UNSTABLE_READY } from "../peers/namespace.ts";
import { PODMAN_COMMANDS, PODMAN_FILES, startPodman } from "../peers/podman.ts";
import { e2eTest, freePort, runTool, startServer, svc } from "./harness.ts";

e2eTest(
  "podman: a server with neither a socket nor a service, or with both, does not start",
  {},
  async () => {
    const folder = await Deno.makeTempDir({ prefix: "svc-e2e-podman-" });
    try {
      const start = (env: Record<string, string>) =>
        svc(["serve", "--data-dir", folder, "--addr", `127.0.0.1:${freePort()}`], {
          env: { SVC_DEPLOY_BACKEND: "podman", ...env },
          signal: AbortSignal.timeout(60_000),
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
      const remote = await start({ SVC_PODMAN_SOCKET: "/x.sock", SVC_PODMAN_REMOTE: "1" });
      assert.equal(remote.code, 2, remote.stderr);
      assert.match(remote.stderr, /SVC_PODMAN_REMOTE/);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
);

for (const version of ["4.3", "5"] as const) {
  const files = version === "5" ? [UNSTABLE_READY] : PODMAN_FILES;
  const needs = { root: true, commands: [...PODMAN_COMMANDS, "skopeo"], files };
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
      } finally {
        await Deno.remove(folder, { recursive: true });
      }
    },
  );
}
