import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { SvcError } from "../base/errors.ts";
import { type Handler, listen } from "./listener.ts";

async function withServer(handler: Handler, body: (base: string) => Promise<void>) {
  const listener = await listen({ hostname: "127.0.0.1", port: 0 }, handler);
  try {
    await body(`http://127.0.0.1:${listener.address.port}`);
  } finally {
    await listener.close();
  }
}

async function withFile(size: number, body: (path: string, bytes: Uint8Array) => Promise<void>) {
  const path = await Deno.makeTempFile();
  const bytes = new Uint8Array(size).map((_, i) => (i * 7 + (i >> 8)) & 255);
  await Deno.writeFile(path, bytes);
  try {
    await body(path, bytes);
  } finally {
    await Deno.remove(path);
  }
}

const unread = (): ReadableStream<Uint8Array> => {
  throw new Error("a file-backed body is read from its file");
};

Deno.test("listener: a file-backed body is the stretch of the file, and no more", async () => {
  await withFile(700_000, async (path, bytes) => {
    await withServer(
      (_request, connection) =>
        Promise.resolve(
          connection.blob({ size: 600_000, stream: unread, file: { path, offset: 1000 } }, {
            status: 206,
            headers: new Headers(),
          }),
        ),
      async (base) => {
        const response = await fetch(base);
        assert.equal(response.status, 206);
        assert.equal(response.headers.get("content-length"), "600000");
        const got = new Uint8Array(await response.arrayBuffer());
        assert.deepEqual(Buffer.from(got), Buffer.from(bytes.subarray(1000, 601_000)));
      },
    );
  });
});

Deno.test("listener: a file that is too short breaks the body off", async () => {
  await withFile(1000, async (path) => {
    await withServer(
      (_request, connection) =>
        Promise.resolve(
          connection.blob({ size: 5000, stream: unread, file: { path, offset: 0 } }, {
            status: 200,
            headers: new Headers(),
          }),
        ),
      async (base) => {
        const response = await fetch(base);
        await assert.rejects(response.arrayBuffer());
      },
    );
  });
});

Deno.test("listener: an empty body and a streamed one", async () => {
  await withServer(
    (request, connection) => {
      const size = new URL(request.url).pathname === "/empty" ? 0 : 5;
      const stream = () => new Blob(["hello"]).stream() as ReadableStream<Uint8Array>;
      return Promise.resolve(
        connection.blob({ size, stream: size ? stream : unread }, {
          status: 200,
          headers: new Headers(),
        }),
      );
    },
    async (base) => {
      const empty = await fetch(`${base}/empty`);
      assert.equal(empty.headers.get("content-length"), "0");
      assert.equal(await empty.text(), "");
      assert.equal(await (await fetch(base)).text(), "hello");
    },
  );
});

Deno.test("listener: a client that goes away aborts the request's signal, an answered one does not", async () => {
  const begun = Promise.withResolvers<void>();
  const aborted = Promise.withResolvers<void>();
  let spurious = false;
  await withServer(
    async (request) => {
      if (new URL(request.url).pathname === "/quick") {
        request.signal.addEventListener("abort", () => spurious = true);
        return new Response("done");
      }
      request.signal.addEventListener("abort", () => aborted.resolve());
      begun.resolve();
      await aborted.promise;
      return new Response(null);
    },
    async (base) => {
      await (await fetch(`${base}/quick`)).text();
      const controller = new AbortController();
      const request = fetch(`${base}/slow`, { signal: controller.signal });
      begun.promise.then(() => controller.abort());
      await assert.rejects(request);
      await aborted.promise;
      assert.equal(spurious, false);
    },
  );
});

Deno.test("listener: shutdown lets a request in flight end", async () => {
  const started = Promise.withResolvers<void>();
  const listener = await listen({ hostname: "127.0.0.1", port: 0 }, async () => {
    started.resolve();
    await new Promise((resolve) => setTimeout(resolve, 50));
    return new Response("finished");
  });
  const request = fetch(`http://127.0.0.1:${listener.address.port}`);
  await started.promise;
  await listener.shutdown();
  assert.equal(await (await request).text(), "finished");
  await listener.close();
  await listener.close();
});

Deno.test("listener: no host name takes IPv4 on every interface", async () => {
  const listener = await listen({ port: 0 }, () => Promise.resolve(new Response("here")));
  try {
    const response = await fetch(`http://127.0.0.1:${listener.address.port}`);
    assert.equal(await response.text(), "here");
  } finally {
    await listener.close();
  }
});

Deno.test("listener: an address in use and one that is not ours", async () => {
  const never: Handler = () => Promise.reject(new Error("not called"));
  const first = await listen({ hostname: "127.0.0.1", port: 0 }, never);
  const { port } = first.address;
  await assert.rejects(
    listen({ hostname: "127.0.0.1", port, label: `:${port}` }, never),
    (error) =>
      error instanceof SvcError && error.code === "address_in_use" &&
      error.message === `Cannot bind :${port}: address in use` &&
      error.help === "set SVC_ADDR or stop the other server",
  );
  await first.close();
  await assert.rejects(
    listen({ hostname: "192.0.2.1", port: 0 }, never),
    (error) => error instanceof SvcError && error.code === "config_invalid",
  );
});
