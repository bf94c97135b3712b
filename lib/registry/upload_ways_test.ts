/** Every way to bring a blob, with every digest and size: the answers of each step, then the blob. */
import assert from "node:assert/strict";
import { type DigestAlgorithm, digestOf } from "../oci/digest.ts";
import { bytesOf, failure, registry } from "./fixture_test.ts";

type Registry = ReturnType<typeof registry>;

interface Blob {
  digest: string;
  text: string;
}

const UPLOADS = "/v2/a/blobs/uploads/";

async function start({ send }: Registry, query = ""): Promise<string> {
  const response = await send("POST", `${UPLOADS}${query}`);
  assert.equal(response.status, 202);
  assert.equal(response.headers.get("range"), "0-0");
  return response.headers.get("location")!;
}

/** A body that says its length, as clients send it; fetch's Request does not. */
const sized = (text: string, headers: Record<string, string> = {}) => ({
  ...(text !== "" && { body: text }),
  headers: { "content-length": String(bytesOf(text).length), ...headers },
});

const streamed = (text: string) => ({ body: ReadableStream.from([...text].map(bytesOf)) });

const WAYS: Record<string, (r: Registry, blob: Blob) => Promise<Response>> = {
  "one POST": (r, { digest, text }) => r.send("POST", `${UPLOADS}?digest=${digest}`, sized(text)),
  "one POST, streamed": (r, { digest, text }) =>
    r.send("POST", `${UPLOADS}?digest=${digest}`, streamed(text)),
  "POST, PUT": async (r, { digest, text }) =>
    await r.send("PUT", `${await start(r)}?digest=${digest}`, sized(text)),
  "POST, PUT, streamed": async (r, { digest, text }) =>
    await r.send("PUT", `${await start(r)}?digest=${digest}`, streamed(text)),
  "POST, PATCH, PUT": async (r, { digest, text }) => {
    const location = await start(r);
    assert.equal((await r.send("PATCH", location, sized(text))).status, 202);
    return await r.send("PUT", `${location}?digest=${digest}`);
  },
  "POST, a PATCH for each byte with its range, PUT": async (r, { digest, text }) => {
    const location = await start(r);
    for (const [at, letter] of [...text].entries()) {
      const range = { "content-range": `${at}-${at}` };
      const response = await r.send("PATCH", location, sized(letter, range));
      assert.equal(response.status, 202);
      assert.equal(response.headers.get("range"), `0-${at}`);
    }
    return await r.send("PUT", `${location}?digest=${digest}`, sized(""));
  },
  "the last chunk in the PUT": async (r, { digest, text }) => {
    const location = await start(r);
    await r.send("PATCH", location, streamed(text.slice(0, -1)));
    return await r.send("PUT", `${location}?digest=${digest}`, sized(text.slice(-1)));
  },
  "announced by its algorithm": async (r, { digest, text }) => {
    const location = await start(r, `?digest-algorithm=${digest.split(":")[0]}`);
    await r.send("PATCH", location, streamed(text));
    return await r.send("PUT", `${location}?digest=${digest}`);
  },
  "announced by another algorithm": async (r, { digest, text }) => {
    const other = digest.startsWith("sha256") ? "sha512" : "sha256";
    const location = await start(r, `?digest-algorithm=${other}`);
    await r.send("PATCH", location, streamed(text));
    return await r.send("PUT", `${location}?digest=${digest}`);
  },
};

for (const [way, push] of Object.entries(WAYS)) {
  Deno.test(`a blob comes by ${way}`, async () => {
    for (const algorithm of ["sha256", "sha512"] satisfies DigestAlgorithm[]) {
      for (const text of ["", "x", "hello world"]) {
        const r = registry();
        const digest = digestOf(bytesOf(text), algorithm);
        const what = `${algorithm} of ${JSON.stringify(text)}`;
        const created = await push(r, { digest, text });
        assert.equal(created.status, 201, what);
        const path = `/v2/a/blobs/${digest}`;
        assert.equal(created.headers.get("location"), path, what);
        assert.equal(created.headers.get("docker-content-digest"), digest, what);
        for (const method of ["GET", "HEAD"]) {
          const response = await r.send(method, path);
          assert.equal(response.status, 200, what);
          assert.equal(response.headers.get("content-length"), String(bytesOf(text).length), what);
          assert.equal(response.headers.get("docker-content-digest"), digest, what);
          if (method === "GET") assert.equal(await response.text(), text, what);
        }
        const part = await r.send("GET", path, { headers: { range: "bytes=0-0" } });
        assert.equal(part.status, text === "" ? 416 : 206, what);
        await part.body?.cancel();
        assert.equal(await r.store.expireUploads(-60_000), 0, `${what}: an upload is left`);
        assert.equal((await r.send("DELETE", path)).status, 202, what);
        assert.equal((await r.send("HEAD", path)).status, 404, what);
      }
    }
  });
}

/** What an upload that holds 10 bytes says to a chunk, and what it holds then. */
const CHUNKS: [range: string, body: string, status: number, held: string][] = [
  ["10-14", "abcde", 202, "0-14"],
  ["bytes 10-14/*", "abcde", 202, "0-14"],
  ["0-4", "abcde", 416, "0-9"], // sent again
  ["0-9", "abcdefghij", 416, "0-9"],
  ["5-14", "abcdefghij", 416, "0-9"], // overlapping
  ["9-13", "abcde", 416, "0-9"], // by one byte
  ["11-15", "abcde", 416, "0-9"], // one byte is missing
  ["1000000000-1000000004", "abcde", 416, "0-9"],
  ["10-13", "abcde", 400, "0-9"], // longer than its range
  ["10-15", "abcde", 400, "0-9"], // shorter
  ["14-10", "abcde", 400, "0-9"],
  ["10", "abcde", 400, "0-9"],
  ["bytes */15", "abcde", 400, "0-9"],
  ["", "abcde", 400, "0-9"],
];

Deno.test("chunks are taken in their order, and told where to go on", async () => {
  for (const method of ["PATCH", "PUT"]) {
    for (const [range, body, status, held] of CHUNKS) {
      const r = registry();
      const location = await start(r);
      await r.send("PATCH", location, sized("0123456789"));
      const digest = digestOf(bytesOf(`0123456789${body}`));
      const response = await r.send(
        method,
        method === "PUT" ? `${location}?digest=${digest}` : location,
        sized(body, { "content-range": range }),
      );
      const what = `${method} ${range}`;
      const expected = status === 202 && method === "PUT" ? 201 : status;
      assert.equal(response.status, expected, what);
      if (status === 416) {
        assert.equal(response.headers.get("range"), "0-9", what);
        assert.equal(response.headers.get("location"), location, what);
      }
      if (status >= 400) await failure(response);
      if (expected === 201) continue;
      for (const ask of ["GET", "HEAD"]) {
        const state = await r.send(ask, location);
        assert.equal(state.status, 204, what);
        assert.equal(state.headers.get("range"), held, `${ask} after ${what}`);
        assert.equal(state.headers.get("location"), location, what);
        assert.equal(state.headers.get("docker-upload-uuid"), location.split("/").at(-1), what);
      }
    }
  }
});

Deno.test("a first chunk that does not begin at the beginning", async () => {
  const r = registry();
  const location = await start(r);
  const response = await r.send("PATCH", location, sized("abc", { "content-range": "1-3" }));
  assert.equal(response.headers.get("range"), "0-0");
  assert.equal(await failure(response), "416 BLOB_UPLOAD_INVALID");
});

Deno.test("a mount without its source, and one of nothing", async () => {
  const r = registry();
  const { digest } = await r.pushBlob("here", "shared");
  const sha512 = digestOf(bytesOf("shared"), "sha512");
  const missing = digestOf(bytesOf("missing"));
  const cases: [query: string, status: number][] = [
    [`mount=${digest}&from=here`, 201],
    [`mount=${digest}`, 201],
    [`from=here&mount=${digest}`, 201],
    [`mount=${digest}&from=never/pushed`, 201],
    [`mount=${missing}&from=here`, 202],
    [`mount=${missing}`, 202],
    [`mount=${sha512}`, 202],
    [`mount=&from=here`, 400],
    [`from=here`, 202],
  ];
  for (const [query, status] of cases) {
    const response = await r.send("POST", `${UPLOADS}?${query}`);
    assert.equal(response.status, status, query);
    const location = response.headers.get("location");
    if (status === 201) {
      assert.equal(location, `/v2/a/blobs/${digest}`);
      assert.equal(response.headers.get("docker-content-digest"), digest);
    }
    if (status !== 202) continue;
    // What was not mounted is sent instead.
    const text = "missing";
    assert.equal((await r.send("PUT", `${location}?digest=${missing}`, sized(text))).status, 201);
    await r.store.deleteBlob("a", missing);
  }
});
