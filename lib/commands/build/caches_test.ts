import assert from "node:assert/strict";
import { ndjson, svcFake } from "../../../test/fixtures/cli.ts";
import { readTar } from "../../oci/tar_read.ts";
import { writeTar } from "../../oci/tar_write.ts";

const text = (content: string) => new TextEncoder().encode(content);

Deno.test("caches: folders are sent before the build and stored after it", async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-caches-" });
  try {
    const layout = `${folder}/cache`;
    await Deno.mkdir(`${layout}/blobs/sha256`, { recursive: true });
    await Deno.writeTextFile(`${layout}/oci-layout`, "{}");
    await Deno.writeTextFile(`${layout}/index.json`, "{}");
    await Deno.writeTextFile(`${layout}/blobs/sha256/old`, "old");
    await Deno.writeTextFile(`${folder}/Dockerfile`, "FROM scratch\n");
    const sent: string[] = [];
    const handler = async (request: Request, url: URL) => {
      if (request.method === "GET") {
        const entries = ["oci-layout", "index.json", "blobs/sha256/new"];
        return new Response(
          writeTar(
            entries.map((path) => ({ path, type: "file" as const, body: text("{}") })),
          ) as ReadableStream<Uint8Array<ArrayBuffer>>,
        );
      }
      if (url.pathname.endsWith("/build/inputs")) {
        for await (const { header } of readTar(request.body!)) sent.push(header.path);
        return Response.json({ id: "given", size: 1 });
      }
      for await (const _ of request.body ?? []) { /* only its end counts */ }
      const result = { digest: "d", imageId: "i", names: [], size: 1, ran: 0, cached: 1 };
      return ndjson({
        type: "result",
        result: { ...result, durationMs: 1, caches: [{ index: 1, digest: "c", size: 1, id: "x" }] },
      });
    };
    const args = ["--cache-from", `type=local,src=${layout}`, "--cache-from", "team/app:cache"];
    const more = ["--cache-from", `type=local,src=${folder}/none`, "--cache-to", "inline"];
    const to = ["--cache-to", `type=local,dest=${layout},mode=max,mounts=true`];
    const built = await svcFake(["build", ...args, ...more, ...to, folder], { handler });
    assert.equal(built.code, 0, built.stderr);
    assert.deepEqual(sent.sort(), ["blobs/sha256/old", "index.json", "oci-layout"]);
    assert.match(built.stderr, /WARNING: no cache in .*none/);
    const { searchParams } = new URL(`http://x${built.requests[1].split(" ")[1]}`);
    assert.deepEqual(searchParams.getAll("cachefrom"), [
      "type=local,id=given",
      "type=registry,ref=team/app:cache",
    ]);
    assert.deepEqual(searchParams.getAll("cacheto"), [
      "type=inline",
      "type=local,mode=max,mounts=true",
    ]);
    const blobs = [...Deno.readDirSync(`${layout}/blobs/sha256`)].map(({ name }) => name);
    assert.deepEqual(blobs, ["new"], "what the new cache does not need is gone");
    await Deno.mkdir(`${folder}/full`);
    await Deno.writeTextFile(`${folder}/full/file`, "kept");
    const full = ["--cache-to", "inline", "--cache-to", `type=local,dest=${folder}/full`];
    const refused = await svcFake(["build", ...full, folder], { handler });
    assert.match(refused.stderr, /Cannot store the cache in .*full.*something else/);
    for (
      const bad of [
        ["--cache-to", "type=local"],
        ["--cache-to", "type=s3,bucket=x"],
        ["--cache-to", "type=inline,mode=max"],
        ["--cache-from", "type=registry"],
        ["--cache-from", "type=registry,ref=x,reff=y"],
      ]
    ) {
      const { code, requests } = await svcFake(["build", ...bad, folder], { handler });
      assert.deepEqual([code, requests], [2, []], bad.join(" "));
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
