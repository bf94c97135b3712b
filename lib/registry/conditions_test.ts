/** HEAD, If-None-Match and Location, everywhere they may be met. */
import assert from "node:assert/strict";
import { bytesOf, digest, registry } from "./fixture_test.ts";

async function filled() {
  const r = registry();
  const text = await r.image("a", "x");
  await r.pushManifest("a", "v1", text);
  const layer = digest("layer x");
  const started = await r.send("POST", "/v2/a/blobs/uploads/");
  return { ...r, text, layer, upload: started.headers.get("location")! };
}

Deno.test("HEAD answers as GET does, without a body", async () => {
  const r = await filled();
  const manifest = digest(r.text);
  const paths = [
    "/v2/",
    "/v2",
    "/v2/_catalog",
    "/v2/_catalog?n=0",
    "/v2/a/tags/list",
    "/v2/none/tags/list",
    "/v2/A/tags/list",
    "/v2/a/manifests/v1",
    `/v2/a/manifests/${manifest}`,
    "/v2/a/manifests/v2",
    "/v2/a/manifests/sha256:x",
    `/v2/a/blobs/${r.layer}`,
    `/v2/a/blobs/${digest("no")}`,
    "/v2/a/blobs/sha256:x",
    `/v2/a/referrers/${manifest}`,
    "/v2/a/referrers/x",
    r.upload,
    `${r.upload}x`,
  ];
  for (const path of paths) {
    for (const range of ["", "bytes=1-2", "bytes=999-"]) {
      const headers: Record<string, string> = range === "" ? {} : { range };
      const [get, head] = [
        await r.send("GET", path, { headers }),
        await r.send("HEAD", path, { headers }),
      ];
      const fields = ({ status, headers }: Response) => ({
        status,
        fields: Object.fromEntries([...headers].filter(([name]) => name !== "content-type")),
      });
      assert.deepEqual(fields(head), fields(get), `${path} ${range}`);
      assert.equal(head.headers.get("content-type"), get.headers.get("content-type"), path);
      const { length } = bytesOf(await get.text());
      const stated = get.headers.get("content-length");
      assert.equal(stated === null ? 0 : Number(stated), length, path);
      await head.body?.cancel();
    }
  }
});

Deno.test("If-None-Match spares what the client has, by tag, digest and blob", async () => {
  const r = await filled();
  const own = digest(r.text);
  const other = digest("other");
  const cases: [path: string, value: string, status: number][] = [];
  for (
    const [path, tag] of [
      ["/v2/a/manifests/v1", own],
      [`/v2/a/manifests/${own}`, own],
      [`/v2/a/blobs/${r.layer}`, r.layer],
    ]
  ) {
    cases.push(
      [path, `"${tag}"`, 304],
      [path, `W/"${tag}"`, 304],
      [path, `"${other}", "${tag}"`, 304],
      [path, "*", 304],
      [path, tag, 304], // as some clients write it
      [path, `"${other}"`, 200],
      [path, `"${tag}x"`, 200],
      [path, '""', 200],
    );
  }
  for (const [path, value, status] of cases) {
    for (const method of ["GET", "HEAD"]) {
      const response = await r.send(method, path, { headers: { "if-none-match": value } });
      assert.equal(response.status, status, `${method} ${path} ${value}`);
      assert.match(response.headers.get("etag")!, /^"sha256:[0-9a-f]{64}"$/);
      assert.ok(response.headers.has("docker-content-digest"));
      if (status === 304) assert.equal(await response.text(), "");
      else await response.body?.cancel();
    }
  }
  // A tag that moved is sent again.
  const text = await r.image("a", "y");
  await r.pushManifest("a", "v1", text);
  const headers = { "if-none-match": `"${own}"` };
  const moved = await r.send("GET", "/v2/a/manifests/v1", { headers });
  assert.equal(moved.status, 200);
  assert.equal(await moved.text(), text);
  // What is not there is not "not modified".
  const gone = await r.send("GET", "/v2/a/manifests/v9", { headers: { "if-none-match": "*" } });
  assert.equal(gone.status, 404);
  await gone.body?.cancel();
});

Deno.test("Location is relative, and leads to what was made", async () => {
  const r = await filled();
  const text = await r.image("a", "z");
  const made = [
    await r.send("POST", "/v2/a/blobs/uploads/"),
    await r.send("POST", "/v2/a/blobs/uploads"),
    await r.send("PATCH", r.upload, { body: "x" }),
    await r.send("PUT", `${r.upload}?digest=${digest("x")}`),
    await r.send("POST", `/v2/a/blobs/uploads/?digest=${digest("y")}`, { body: "y" }),
    await r.send("POST", `/v2/b/blobs/uploads/?mount=${r.layer}&from=a`),
    await r.pushManifest("a", "v3", text),
  ];
  for (const response of made) {
    const location = response.headers.get("location")!;
    assert.match(location, /^\/v2\//);
    const found = await r.send("GET", location);
    // The first PATCH's upload has ended with its PUT.
    assert.ok([200, 204, 404].includes(found.status), location);
    if (response.status === 201) assert.equal(found.status, 200, location);
    await found.body?.cancel();
  }
});
