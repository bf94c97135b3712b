import assert from "node:assert/strict";
import { SvcError } from "../base/errors.ts";
import { digestOf } from "../oci/digest.ts";
import { bytesOf, digest, failure, registry } from "./fixture_test.ts";

type Registry = ReturnType<typeof registry>;

async function start({ send }: Registry, repository = "a/b", query = ""): Promise<string> {
  const response = await send("POST", `/v2/${repository}/blobs/uploads/${query}`);
  assert.equal(response.status, 202);
  const location = response.headers.get("location")!;
  assert.match(location, new RegExp(`^/v2/${repository}/blobs/uploads/[0-9a-f-]+$`));
  assert.equal(response.headers.get("range"), "0-0");
  assert.equal(location.endsWith(response.headers.get("docker-upload-uuid")!), true);
  return location;
}

async function assertBlob({ send }: Registry, repository: string, text: string) {
  assert.equal(await (await send("GET", `/v2/${repository}/blobs/${digest(text)}`)).text(), text);
}

Deno.test("a blob in one POST", async () => {
  const r = registry();
  const path = `/v2/a/blobs/uploads/?digest=${digest("hello")}`;
  const response = await r.send("POST", path, { body: "hello" });
  assert.equal(response.status, 201);
  assert.equal(response.headers.get("location"), `/v2/a/blobs/${digest("hello")}`);
  assert.equal(response.headers.get("docker-content-digest"), digest("hello"));
  await assertBlob(r, "a", "hello");
  const wrong = await r.send("POST", path.replace(digest("hello"), digest("x")), { body: "hello" });
  assert.equal(await failure(wrong), "400 DIGEST_INVALID");
  const malformed = await r.send("POST", "/v2/a/blobs/uploads/?digest=sha256:1", { body: "hello" });
  assert.equal(await failure(malformed), "400 DIGEST_INVALID");
  const long = digestOf(bytesOf("hello"), "sha512");
  const sha512 = await r.send("POST", `/v2/a/blobs/uploads?digest=${long}`, { body: "hello" });
  assert.equal(sha512.status, 201);
  assert.equal(await r.store.expireUploads(-60_000), 0, "an upload is left");
});

Deno.test("POST, then PUT with the whole body", async () => {
  const r = registry();
  const location = await start(r);
  const done = await r.send("PUT", `${location}?digest=${digest("hello")}`, { body: "hello" });
  assert.equal(done.status, 201);
  assert.equal(done.headers.get("location"), `/v2/a/b/blobs/${digest("hello")}`);
  await assertBlob(r, "a/b", "hello");
  assert.equal(await failure(await r.send("GET", location)), "404 BLOB_UPLOAD_UNKNOWN");
});

Deno.test("chunks with Content-Range, out of order ones told where to go on", async () => {
  const r = registry();
  const location = await start(r);
  const patch = (range: string, body: string) =>
    r.send("PATCH", location, { body, headers: { "content-range": range } });
  const first = await patch("0-5", "hello ");
  assert.equal(first.status, 202);
  assert.equal(first.headers.get("range"), "0-5");
  assert.equal(first.headers.get("location"), location);
  for (const range of ["0-5", "9-14"]) {
    const refused = await patch(range, "world!");
    assert.equal(refused.headers.get("range"), "0-5");
    assert.equal(refused.headers.get("location"), location);
    assert.equal(await failure(refused), "416 BLOB_UPLOAD_INVALID");
  }
  const status = await r.send("GET", location);
  assert.equal(status.status, 204);
  assert.equal(status.headers.get("range"), "0-5");
  assert.equal(await failure(await patch("6-", "x")), "400 BLOB_UPLOAD_INVALID");
  const late = await r.send("PUT", `${location}?digest=${digest("hello world")}`, {
    body: "world",
    headers: { "content-range": "7-11" },
  });
  assert.equal(await failure(late), "416 BLOB_UPLOAD_INVALID");
  const last = await r.send("PUT", `${location}?digest=${digest("hello world")}`, {
    body: "world",
    headers: { "content-range": "6-10", "content-length": "5" },
  });
  assert.equal(last.status, 201);
  await assertBlob(r, "a/b", "hello world");
});

Deno.test("a chunk that is not as long as announced", async () => {
  const r = registry();
  const location = await start(r);
  const patch = (range: string, body: string | undefined, length?: string) =>
    r.send("PATCH", location, {
      body,
      headers: { "content-range": range, ...(length && { "content-length": length }) },
    });
  assert.equal(await failure(await patch("0-4", "hello world")), "400 SIZE_INVALID");
  assert.equal((await r.send("GET", location)).headers.get("range"), "0-4");
  assert.equal(await failure(await patch("5-9", " worl", "6")), "400 SIZE_INVALID");
  assert.equal(await failure(await patch("5-9", undefined)), "400 SIZE_INVALID");
  assert.equal((await patch("5-10", " world", "6")).status, 202);
  const done = await r.send("PUT", `${location}?digest=${digest("hello world")}`);
  assert.equal(done.status, 201);
});

Deno.test("a stream without Content-Range, broken off and gone on with", async () => {
  const r = registry();
  const location = await start(r);
  let pulls = 0;
  const breaking = new ReadableStream({
    pull(controller) {
      if (pulls++ === 0) controller.enqueue(bytesOf("hello "));
      else {controller.error(
          new SvcError("cancelled", "Cannot receive the body: the connection broke off"),
        );}
    },
  });
  assert.equal((await r.send("PATCH", location, { body: breaking })).status, 499);
  assert.equal((await r.send("GET", location)).headers.get("range"), "0-5");
  const rest = await r.send("PATCH", location, { body: "world" });
  assert.equal(rest.headers.get("range"), "0-10");
  assert.equal((await r.send("PUT", `${location}?digest=${digest("hello world")}`)).status, 201);
  await assertBlob(r, "a/b", "hello world");
});

Deno.test("a wrong digest, or none, at the end", async () => {
  const r = registry();
  const location = await start(r);
  await r.send("PATCH", location, { body: "hello" });
  assert.equal(await failure(await r.send("PUT", location)), "400 DIGEST_INVALID");
  assert.equal(await failure(await r.send("PUT", `${location}?digest=x`)), "400 DIGEST_INVALID");
  assert.equal((await r.send("GET", location)).status, 204);
  const wrong = await r.send("PUT", `${location}?digest=${digest("hellx")}`);
  assert.equal(await failure(wrong), "400 DIGEST_INVALID");
  assert.equal((await r.send("GET", location)).status, 404);
  assert.equal((await r.send("HEAD", `/v2/a/b/blobs/${digest("hellx")}`)).status, 404);
});

Deno.test("uploads are cancelled, unknown, or of another repository", async () => {
  const r = registry();
  const location = await start(r);
  const elsewhere = location.replace("/a/b/", "/a/c/");
  assert.equal(
    await failure(await r.send("PATCH", elsewhere, { body: "x" })),
    "404 BLOB_UPLOAD_UNKNOWN",
  );
  assert.equal((await r.send("DELETE", location)).status, 204);
  for (const method of ["GET", "PATCH", "PUT", "DELETE"]) {
    const body = method === "PATCH" || method === "PUT" ? "x" : undefined;
    const response = await r.send(method, `${location}?digest=${digest("x")}`, { body });
    assert.equal(await failure(response), "404 BLOB_UPLOAD_UNKNOWN", method);
  }
  const bad = await r.send("POST", "/v2/Bad/blobs/uploads/");
  assert.equal(await failure(bad), "400 NAME_INVALID");
});

Deno.test("mounts", async () => {
  const r = registry();
  await r.pushBlob("from/here", "shared");
  const mount = (query: string) => r.send("POST", `/v2/to/there/blobs/uploads/?mount=${query}`);
  for (const query of [`${digest("shared")}&from=from/here`, digest("shared")]) {
    const response = await mount(query);
    assert.equal(response.status, 201);
    assert.equal(response.headers.get("location"), `/v2/to/there/blobs/${digest("shared")}`);
  }
  await assertBlob(r, "to/there", "shared");
  const missing = await mount(`${digest("missing")}&from=from/here`);
  assert.equal(missing.status, 202);
  assert.ok(missing.headers.get("location"));
  assert.equal(await failure(await mount("sha256:x&from=from/here")), "400 DIGEST_INVALID");
  assert.equal(await failure(await mount(`${digest("shared")}&from=../x`)), "400 NAME_INVALID");
});

Deno.test("an upload may say which digest it will be", async () => {
  const r = registry();
  const location = await start(r, "a", "?digest-algorithm=sha512");
  const sha512 = digestOf(bytesOf("hello"), "sha512");
  await r.send("PATCH", location, { body: "hello" });
  assert.equal((await r.send("PUT", `${location}?digest=${sha512}`)).status, 201);
  const response = await r.send("POST", "/v2/a/blobs/uploads/?digest-algorithm=md5");
  assert.equal(await failure(response), "400 DIGEST_INVALID");
});
