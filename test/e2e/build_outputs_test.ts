/** Where builds go and what they bring along: archives, folders, other registries, caches, the ceiling. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { startDockerRegistry } from "../peers/docker_registry.ts";
import { eventually } from "../waits.ts";
import { baseImage, e2eTest, runTool, type Server, startServer, svc } from "./harness.ts";

const NEEDS = {
  root: true,
  commands: ["runc", "skopeo"],
  files: ["/bin/busybox"],
};

async function inFolder(
  files: Record<string, string>,
  work: (folder: string) => Promise<void>,
): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-e2e-outputs-" });
  try {
    await Deno.mkdir(join(folder, "context"));
    for (const [path, text] of Object.entries(files)) {
      await Deno.writeTextFile(join(folder, "context", path), text);
    }
    await work(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function ok(server: Server, ...args: string[]) {
  const result = await server.svc(["build", ...args]);
  assert.equal(result.code, 0, `${args.join(" ")}\n${result.stderr}`);
  return result;
}

const skopeo = async (...args: string[]) => (await runTool("skopeo", args)).stdout;

const appFiles = (base: string) => ({
  Dockerfile: [
    `FROM ${base} AS make`,
    "COPY input /input",
    "RUN --mount=type=cache,id=made,target=/c tr a-z A-Z < /input > /made && cp /made /c/last",
    `FROM ${base}`,
    // More than is packed without a Worker.
    "RUN seq 1 100000 > /numbers",
    "COPY --from=make /made /made",
  ].join("\n"),
  input: "words\n",
});

e2eTest("build outputs: archives, a folder, standard output, a metadata file", NEEDS, async () => {
  await using server = await startServer();
  const base = await baseImage(server, "base:1");
  await inFolder(appFiles(base.name), async (folder) => {
    const context = `${folder}/context`;
    const outputs = [
      `type=oci,dest=${folder}/oci.tar,compression=zstd`,
      `type=docker,dest=${folder}/docker.tar`,
      `${folder}/out`,
      "type=image",
    ].flatMap((text) => ["-o", text]);
    const files = ["--metadata-file", `${folder}/meta.json`, "--iidfile", `${folder}/iid`];
    await ok(server, "-t", "app:v1", ...outputs, ...files, context);
    assert.equal(await Deno.readTextFile(`${folder}/out/made`), "WORDS\n");
    const metadata = JSON.parse(await Deno.readTextFile(`${folder}/meta.json`));
    const raw = await skopeo("inspect", "--raw", `oci-archive:${folder}/oci.tar:v1`);
    assert.match(raw, /tar\+zstd/);
    assert.match(metadata["containerimage.digest"], /^sha256:/);
    const config = await skopeo(
      "inspect",
      "--config",
      "--raw",
      `docker-archive:${folder}/docker.tar`,
    );
    const iid = `sha256:${(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(config))
      .then((hash) => new Uint8Array(hash).toHex()))}`;
    assert.equal(await Deno.readTextFile(`${folder}/iid`), iid);
    const waiting = () => [...Deno.readDirSync(`${server.dataDir}/build/outputs`)].length;
    await eventually("all is taken", () => waiting() === 0);
    const piped = await runTool("sh", [
      "-c",
      '"$0" "$@" | tar -xO made',
      Deno.env.get("SVC_TEST_EXECUTABLE") ?? join(import.meta.dirname!, "../../dist/svc"),
      "build",
      "--server",
      server.url,
      "-o",
      "-",
      context,
    ]);
    assert.equal(piped.stdout, "WORDS\n");
  });
});

e2eTest("build outputs: another registry keeps attestations, and a cache that a new server uses", {
  ...NEEDS,
  commands: [...NEEDS.commands, "docker-registry"],
}, async () => {
  await using registry = await startDockerRegistry();
  const name = `${registry.host}/team/app:v1`;
  const cache = `type=registry,ref=${registry.host}/team/app:cache`;
  let digest: string;
  {
    await using server = await startServer();
    await baseImage(registry, "base:1");
    await inFolder(appFiles(`${registry.host}/base:1`), async (folder) => {
      const context = `${folder}/context`;
      const epoch = ["--build-arg", "SOURCE_DATE_EPOCH=1700000000"];
      const attest = ["--sbom=true", "--provenance=mode=max", ...epoch];
      await ok(
        server,
        "-t",
        name,
        ...attest,
        "--cache-to",
        `${cache},mode=max,mounts=true`,
        context,
      );
      const index = JSON.parse(
        await skopeo("inspect", "--raw", "--tls-verify=false", `docker://${name}`),
      );
      assert.equal(index.manifests.length, 2);
      const [image, attestation] = index.manifests;
      assert.equal(attestation.annotations["vnd.docker.reference.digest"], image.digest);
      digest = image.digest;
      // A machine that pulls it sees the image alone.
      const pulled = JSON.parse(await skopeo("inspect", "--tls-verify=false", `docker://${name}`));
      assert.equal(pulled.Layers.length, 3);
    });
  }
  await using fresh = await startServer();
  await inFolder(appFiles(`${registry.host}/base:1`), async (folder) => {
    const context = `${folder}/context`;
    const epoch = ["--build-arg", "SOURCE_DATE_EPOCH=1700000000"];
    const built = await ok(
      fresh,
      ...["--progress", "json", "-t", "again:v1", ...epoch],
      ...["--cache-from", `${cache},mounts=true`, context],
    );
    const last = JSON.parse(built.stdout.trimEnd().split("\n").at(-1)!);
    assert.deepEqual([last.result.ran, last.result.digest], [0, digest]);
    await Deno.writeTextFile(
      `${context}/Dockerfile`,
      `FROM ${registry.host}/base:1\nRUN --mount=type=cache,id=made,target=/c cp /c/last /last\n`,
    );
    await ok(fresh, "-o", `${folder}/out`, "--cache-from", `${cache},mounts=true`, context);
    assert.equal(await Deno.readTextFile(`${folder}/out/last`), "WORDS\n");
  });
});

e2eTest(
  "build cache: stays below its ceiling, through kill -9 too",
  NEEDS,
  async () => {
    const keep = 5 << 20;
    await using server = await startServer({ env: { SVC_BUILD_CACHE_KEEP_BYTES: String(keep) } });
    const base = await baseImage(server, "base:1");
    await inFolder({}, async (folder) => {
      const context = `${folder}/context`;
      const step = async (name: string) => {
        await Deno.writeTextFile(
          `${context}/Dockerfile`,
          `FROM ${base.name}\nRUN head -c 2000000 /dev/zero > /${name}\n`,
        );
        return await svc(["build", "--no-push", context], { env: { SVC_SERVER: server.url } });
      };
      for (let round = 0; round < 2; round++) {
        for (const name of ["a", "b"]) assert.equal((await step(`${name}${round}`)).code, 0);
        // In the middle of a build or of the pruning after one.
        const cut = step(`cut${round}`);
        await server.kill9();
        await cut;
        await server.restart();
      }
      assert.equal((await step("last")).code, 0);
      const answer = await fetch(`${server.url}/.svc/v1/gc`, { method: "POST" });
      const { buildCacheBytesReclaimed } = await answer.json();
      assert.ok(buildCacheBytesReclaimed >= 0);
      // What a build has had pruned may be on its way out; du fails where it goes meanwhile.
      await eventually("the cache is small enough", async () => {
        const parts = ["snapshots", "cache"].map((part) => `${server.dataDir}/build/${part}`);
        const { stdout } = await runTool("du", ["-sB1", "--total", ...parts]);
        const bytes = Number(stdout.trimEnd().split("\n").at(-1)!.split("\t")[0]);
        assert.ok(bytes <= keep + (256 << 10), `${bytes} bytes on disk`);
        return true;
      });
      const again = await step("last");
      assert.match(again.stderr, /CACHED/);
    });
  },
);

e2eTest("build outputs: a registry that demands a login gets the caller's, and nobody logs it", {
  ...NEEDS,
  commands: [...NEEDS.commands, "docker-registry"],
}, async () => {
  await using registry = await startDockerRegistry({ login: true });
  await using server = await startServer({ env: { DOCKER_CONFIG: "/nonexistent" } });
  const base = await baseImage(server, "base:1");
  await inFolder(appFiles(base.name), async (folder) => {
    const name = `${registry.host}/team/app:v1`;
    const args = ["build", "-t", name, `${folder}/context`];
    const refused = await server.svc(args, { env: { DOCKER_CONFIG: "/nonexistent" } });
    assert.equal(refused.code, 1);
    const auths = { [registry.host]: { auth: btoa("user:secret") } };
    await Deno.writeTextFile(`${folder}/config.json`, JSON.stringify({ auths }));
    const pushed = await server.svc(args, { env: { DOCKER_CONFIG: folder } });
    assert.equal(pushed.code, 0, pushed.stderr);
    assert.match(pushed.stdout, new RegExp(`^${name}@sha256:`));
    const command = ["/bin/busybox", "sleep", "1000"];
    const spec = { name: "private", image: name, command, networks: ["none"], stopSignal: "KILL" };
    const deploy = (config: string) =>
      server.svc(["deploy", "-f", "-"], {
        stdin: JSON.stringify(spec, null, 1),
        env: { DOCKER_CONFIG: config },
      });
    const unknown = await deploy("/nonexistent");
    assert.deepEqual([unknown.code, /401|login|unauthorized/i.test(unknown.stderr)], [1, true]);
    const deployed = await deploy(folder);
    assert.equal(deployed.code, 0, deployed.stderr);
    assert.equal((await server.svc(["rm", "private"])).code, 0);
    for (const text of ["user:secret", btoa("user:secret"), '"secret"']) {
      assert.ok(!server.log().includes(text), "the login is in the log");
    }
  });
});
