import assert from "node:assert/strict";
import { ndjson, svcFake } from "../../../test/fixtures/cli.ts";
import type { BuildResult } from "../../api/build.ts";
import { writeTar } from "../../oci/tar_write.ts";

const RESULT: BuildResult = {
  digest: "sha256:" + "a".repeat(64),
  imageId: "sha256:" + "b".repeat(64),
  mediaType: "application/vnd.oci.image.manifest.v1+json",
  descriptorSize: 7,
  names: ["localhost:5000/app:v1"],
  size: 10,
  ran: 1,
  cached: 1,
  durationMs: 5,
};

const ARCHIVE = await new Response(
  writeTar([{
    path: "d/f",
    type: "file",
    body: new TextEncoder().encode("content"),
  }]) as ReadableStream<Uint8Array<ArrayBuffer>>,
).bytes();

/** Builds whatever it is sent, and has an archive for each output that wants one. */
async function server(request: Request, url: URL): Promise<Response> {
  if (request.method === "GET") return new Response(ARCHIVE);
  for await (const _ of request.body ?? []) { /* only its end counts */ }
  const outputs = url.searchParams.getAll("output").flatMap((text, index) => {
    const type = /type=(\w+)/.exec(text)![1];
    return ["oci", "docker", "tar", "local"].includes(type)
      ? [{ index, type, id: `id-${index}`, size: ARCHIVE.length }]
      : [];
  });
  return ndjson({
    type: "result",
    result: { ...RESULT, ...(outputs.length > 0 && { outputs, digest: "", names: [] }) },
  });
}

async function inContext(work: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-outputs-" });
  try {
    await Deno.writeTextFile(`${folder}/Dockerfile`, "FROM scratch\n");
    await work(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const build = (folder: string, ...args: string[]) =>
  svcFake(["build", ...args, folder], { handler: server });

/** The outputs that the server was asked for. */
const asked = (requests: string[]) =>
  new URL(`http://x${requests[0].split(" ")[1]}`).searchParams.getAll("output");

Deno.test("outputs: archives become files, a folder, or standard output", () =>
  inContext(async (folder) => {
    const args = ["-o", `${folder}/out`, "--output", `type=oci,dest=${folder}/image.tar`];
    const { code, requests, stderr } = await build(folder, ...args);
    assert.equal(code, 0, stderr);
    assert.deepEqual(asked(requests), ["type=local", "type=oci"], "paths stay here");
    assert.deepEqual(requests.slice(1), ["GET /build/outputs/id-0", "GET /build/outputs/id-1"]);
    assert.equal(await Deno.readTextFile(`${folder}/out/d/f`), "content");
    assert.deepEqual(await Deno.readFile(`${folder}/image.tar`), ARCHIVE);
    assert.match(stderr, /1 file written to/);
    const unpacked = `type=oci,tar=false,dest=${folder}/layout`;
    assert.equal((await build(folder, "-o", unpacked)).code, 0);
    assert.equal(await Deno.readTextFile(`${folder}/layout/d/f`), "content");
    const piped = await build(folder, "--output=-");
    assert.equal(piped.stdout, new TextDecoder().decode(ARCHIVE));
    const refused = await build(folder, "-o", `type=tar,dest=${folder}/none/x.tar`);
    assert.deepEqual([refused.code, refused.stdout], [2, ""]);
    assert.match(refused.stderr, /Cannot write .*x\.tar: there is no such folder/);
  }));

Deno.test("outputs: what is pushed, and the words that are modes", () =>
  inContext(async (folder) => {
    const outputs = async (...args: string[]) => asked((await build(folder, ...args)).requests);
    assert.deepEqual(await outputs(), []);
    assert.deepEqual(await outputs("--push"), []);
    assert.deepEqual(await outputs("--no-push"), ["type=cacheonly"]);
    assert.deepEqual(await outputs("--push", "-o", `${folder}/out`), ["type=local", "type=image"]);
    assert.deepEqual(await outputs("-o", "type=registry,compression=zstd"), [
      "type=image,compression=zstd",
    ]);
    const json = await build(folder, "--output", "json");
    assert.deepEqual([asked(json.requests), JSON.parse(json.stdout).type], [[], "result"]);
    for (const args of [["-o", "type=local"], ["-o", "-", "-o", "type=oci"], ["-o", "type=x"]]) {
      const refused = await build(folder, ...args);
      assert.deepEqual([refused.code, refused.requests], [2, []], refused.stderr);
    }
  }));

Deno.test("outputs: attestations in each of their forms, the last one of a type counts", () =>
  inContext(async (folder) => {
    const attest = async (...args: string[]) => {
      const { requests } = await build(folder, ...args);
      return new URL(`http://x${requests[0].split(" ")[1]}`).searchParams.getAll("attest");
    };
    assert.deepEqual(await attest("--sbom=true", "--provenance=mode=max"), [
      "type=provenance,mode=max",
      "type=sbom",
    ]);
    assert.deepEqual(await attest("--attest", "type=sbom", "--sbom=false"), []);
  }));

Deno.test("outputs: metadata and image id as files", () =>
  inContext(async (folder) => {
    const [metadata, iid] = [`${folder}/meta.json`, `${folder}/iid`];
    await build(folder, "--metadata-file", metadata, "--iidfile", iid, "--annotation", "a=b");
    assert.deepEqual(JSON.parse(await Deno.readTextFile(metadata)), {
      "containerimage.config.digest": RESULT.imageId,
      "containerimage.descriptor": {
        mediaType: RESULT.mediaType,
        digest: RESULT.digest,
        size: 7,
      },
      "containerimage.digest": RESULT.digest,
      "image.name": "localhost:5000/app:v1",
    });
    assert.equal(await Deno.readTextFile(iid), RESULT.imageId);
  }));

Deno.test("outputs: --load feeds the engine that is there", () =>
  inContext(async (folder) => {
    await Deno.mkdir(`${folder}/bin`);
    await Deno.writeTextFile(
      `${folder}/bin/docker`,
      "#!/bin/sh\n[ $1 = load ] && wc -c && echo Loaded\n",
    );
    await Deno.chmod(`${folder}/bin/docker`, 0o755);
    const path = Deno.env.get("PATH")!;
    try {
      Deno.env.set("PATH", `${folder}/bin:${path}`);
      const { code, stderr } = await build(folder, "--load");
      assert.equal(code, 0, stderr);
      assert.match(stderr, new RegExp(`${ARCHIVE.length}\\s+Loaded`));
      await Deno.writeTextFile(`${folder}/bin/docker`, "#!/bin/sh\necho no daemon >&2\nexit 1\n");
      const failed = await build(folder, "--load");
      assert.equal(failed.code, 1);
      assert.match(failed.stderr, /Cannot load the image: docker load: no daemon/);
    } finally {
      Deno.env.set("PATH", path);
    }
  }));
