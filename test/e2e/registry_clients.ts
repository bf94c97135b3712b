/** skopeo, podman and docker push to and pull from a registry; digests are compared both ways. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { startDockerd } from "../peers/dockerd.ts";
import { baseImage, e2eTest, type Needs, runTool, type Server } from "./harness.ts";

const LAYERS: Record<string, string | Uint8Array>[] = [
  { "srv/one.txt": "one\n" },
  { "srv/two.bin": new Uint8Array(300_000).map((_, i) => (i * 7919) >> 3) },
  { "srv/three.txt": "three\n" },
];

const ACCEPT = [
  "application/vnd.oci.image.manifest.v1+json",
  "application/vnd.docker.distribution.manifest.v2+json",
].join(", ");

/** What the registry says that a tag is. */
async function digestInRegistry(server: Server, repository: string, tag: string): Promise<string> {
  const response = await fetch(`${server.url}/v2/${repository}/manifests/${tag}`, {
    method: "HEAD",
    headers: { accept: ACCEPT },
  });
  assert.equal(response.status, 200, `${repository}:${tag}`);
  return response.headers.get("docker-content-digest")!;
}

interface Manifest {
  config: { digest: string };
  layers: { digest: string }[];
}

async function manifestOf(
  server: Server,
  repository: string,
  reference: string,
): Promise<Manifest> {
  const response = await fetch(`${server.url}/v2/${repository}/manifests/${reference}`, {
    headers: { accept: ACCEPT },
  });
  assert.equal(response.status, 200, `${repository}@${reference}`);
  return await response.json();
}

async function withFolder(fn: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-e2e-client-" });
  try {
    await fn(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const CONTAINERS_CONF = `[containers]
default_ulimits = ["nofile=20000:20000", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
`;

/** `name` comes before the tests' names; `serve` starts a server of a test's own. */
export function clientTests(name: string, needs: Needs, serve: () => Promise<Server>): void {
  e2eTest(`${name}skopeo copies in and out, lists and deletes`, {
    ...needs,
    commands: [...needs.commands ?? [], "skopeo"],
    files: ["/bin/busybox"],
  }, async () => {
    await using server = await serve();
    await withFolder(async (folder) => {
      const pushed = await baseImage(server, "team/base:v1", { layers: LAYERS });
      assert.equal(await digestInRegistry(server, "team/base", "v1"), pushed.digest);
      const image = `docker://${pushed.name}`;
      const copy = ["--insecure-policy", "copy", "--quiet", "--src-tls-verify=false"];
      await runTool("skopeo", [...copy, image, `oci:${folder}/out:v1`]);
      const index = JSON.parse(await Deno.readTextFile(join(folder, "out/index.json")));
      assert.equal(index.manifests[0].digest, pushed.digest);

      // As docker's own format, which has another digest, into a second repository and back.
      const other = `docker://${server.host}/other:v2s2`;
      await runTool("skopeo", [
        ...copy,
        "--dest-tls-verify=false",
        "--format",
        "v2s2",
        image,
        other,
      ]);
      await runTool("skopeo", [...copy, other, `dir:${folder}/dir`]);
      const manifest = JSON.parse(await Deno.readTextFile(join(folder, "dir/manifest.json")));
      assert.equal(
        manifest.mediaType,
        "application/vnd.docker.distribution.manifest.v2+json",
      );
      const layers = (m: Manifest) => m.layers.map((layer) => layer.digest);
      assert.deepEqual(layers(manifest), layers(await manifestOf(server, "team/base", "v1")));
      assert.equal(manifest.layers.length, 4);

      const listed = await runTool("skopeo", [
        "list-tags",
        "--tls-verify=false",
        "docker://" +
        `${server.host}/team/base`,
      ]);
      assert.deepEqual(JSON.parse(listed.stdout).Tags, ["v1"]);
      await runTool("skopeo", ["delete", "--tls-verify=false", image]);
      const gone = await fetch(`${server.url}/v2/team/base/manifests/v1`, { method: "HEAD" });
      assert.equal(gone.status, 404);
      assert.equal((await manifestOf(server, "other", "v2s2")).layers.length, 4);
    });
  });

  e2eTest(`${name}podman pulls and pushes`, {
    ...needs,
    commands: [...needs.commands ?? [], "skopeo", "podman"],
    files: ["/bin/busybox"],
    root: true,
  }, async () => {
    await using server = await serve();
    await withFolder(async (folder) => {
      const pushed = await baseImage(server, "team/base:v1", { layers: LAYERS });
      await Deno.writeTextFile(join(folder, "containers.conf"), CONTAINERS_CONF);
      const podman = (...args: string[]) =>
        runTool("podman", [
          ...["--root", join(folder, "root"), "--runroot", join(folder, "run")],
          ...["--storage-driver", "vfs", ...args],
        ], { env: { CONTAINERS_CONF: join(folder, "containers.conf") } });
      await podman("pull", "--quiet", "--tls-verify=false", pushed.name);
      const inspected = JSON.parse((await podman("image", "inspect", pushed.name)).stdout);
      assert.equal(inspected[0].Digest, pushed.digest);

      const name = `${server.host}/podman/copy:v1`;
      const file = join(folder, "digest");
      await podman("tag", pushed.name, name);
      await podman("push", "--quiet", "--tls-verify=false", "--digestfile", file, name);
      const digest = (await Deno.readTextFile(file)).trim();
      assert.equal(await digestInRegistry(server, "podman/copy", "v1"), digest);
      const copied = await manifestOf(server, "podman/copy", digest);
      assert.equal(copied.layers.length, 4);
      const source = await manifestOf(server, "team/base", "v1");
      assert.equal(copied.config.digest, source.config.digest);

      await podman("rmi", "--force", name, pushed.name);
      await podman("pull", "--quiet", "--tls-verify=false", `${server.host}/podman/copy@${digest}`);
      const again = JSON.parse((await podman("images", "--digests", "--format", "json")).stdout);
      assert.deepEqual(again.map((image: { Digest: string }) => image.Digest), [digest]);
    });
  });

  e2eTest(`${name}docker pulls and pushes`, {
    ...needs,
    commands: [...needs.commands ?? [], "skopeo", "docker", "dockerd"],
    files: ["/bin/busybox"],
    root: true,
  }, async () => {
    await using server = await serve();
    await withFolder(async (folder) => {
      const pushed = await baseImage(server, "team/base:v1", { layers: LAYERS });
      await using dockerd = await startDockerd(folder);
      const docker = (...args: string[]) =>
        runTool("docker", ["--config", join(folder, "config"), "-H", dockerd.host, ...args]);
      await docker("pull", "--quiet", pushed.name);
      const inspect = async (name: string) => JSON.parse((await docker("inspect", name)).stdout)[0];
      const local = await inspect(pushed.name);
      assert.deepEqual(local.RepoDigests, [`${server.host}/team/base@${pushed.digest}`]);
      assert.equal(local.Id, (await manifestOf(server, "team/base", "v1")).config.digest);

      const name = `${server.host}/docker/copy`;
      await docker("tag", pushed.name, `${name}:v1`);
      const output = (await docker("push", `${name}:v1`)).stdout;
      const digest = /digest: (sha256:[0-9a-f]{64})/.exec(output)?.[1];
      assert.ok(digest, output);
      assert.equal(await digestInRegistry(server, "docker/copy", "v1"), digest);
      const copied = await manifestOf(server, "docker/copy", digest);
      assert.equal(copied.config.digest, local.Id);
      assert.equal(copied.layers.length, 4);

      await docker("rmi", "--force", `${name}:v1`, pushed.name);
      await docker("pull", "--quiet", `${name}@${digest}`);
      const again = await inspect(`${name}@${digest}`);
      assert.equal(again.Id, local.Id);
      assert.deepEqual(again.RootFS, local.RootFS);
    });
  });
}
