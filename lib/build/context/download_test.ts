/** ADD of what others serve: servers that hang, drip, never end, or say that they are too large. */
import assert from "node:assert/strict";
import { gzipSync } from "node:zlib";
import { writeTar } from "../../oci/tar_write.ts";
import { readNames } from "../../sys/directory.ts";
import type { TreeTools } from "../plan/graph.ts";
import { gitTree } from "./git_tree.ts";
import { httpTree } from "./http_tree.ts";

interface Fixture extends AsyncDisposable {
  tools: TreeTools;
  /** Folders that are still there. */
  left(): string[];
}

async function fixture(maxBytes?: number, signal?: AbortSignal): Promise<Fixture> {
  const folder = await Deno.makeTempDir({ prefix: "svc-download-" });
  let count = 0;
  return {
    tools: {
      temporary: async () => {
        const path = `${folder}/${count++}`;
        await Deno.mkdir(path);
        return {
          path,
          [Symbol.asyncDispose]: () => Deno.remove(path, { recursive: true }),
        };
      },
      notes: { get: () => Promise.resolve(undefined), put: () => Promise.resolve() },
      onProgress: () => {},
      ...maxBytes !== undefined && { maxBytes },
      signal: signal ?? new AbortController().signal,
    },
    left: () => readNames(folder),
    [Symbol.asyncDispose]: () => Deno.remove(folder, { recursive: true }),
  };
}

const serve = (handler: () => Response | Promise<Response>) => {
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, handler);
  const url = `http://127.0.0.1:${server.addr.port}/file`;
  return { url, [Symbol.asyncDispose]: () => server.shutdown() };
};

/** A body that goes on until the reader leaves. */
const endless = (size: number, everyMs = 0) =>
  new ReadableStream<Uint8Array<ArrayBuffer>>({
    async pull(controller) {
      if (everyMs > 0) await new Promise((next) => setTimeout(next, everyMs));
      controller.enqueue(new Uint8Array(size));
    },
  });

/** Takes connections and says nothing. */
function mute() {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const conns: Deno.Conn[] = [];
  let heard = Promise.withResolvers<void>();
  const accepting = (async () => {
    for await (const conn of listener) {
      conns.push(conn);
      heard.resolve();
      heard = Promise.withResolvers();
    }
  })();
  return {
    /** Somebody connects from now on. */
    connected: () => heard.promise,
    port: listener.addr.port,
    async [Symbol.asyncDispose]() {
      listener.close();
      await accepting;
      for (const conn of conns) conn.close();
    },
  };
}

Deno.test("a server that does not answer, and one that drips", async () => {
  await using silent = mute();
  await using dripping = serve(() => new Response(endless(1, 5)));
  for (const url of [`http://127.0.0.1:${silent.port}/file`, dripping.url]) {
    await using at = await fixture();
    await assert.rejects(httpTree(url, { patienceMs: 100 }).identity(at.tools), {
      code: "upstream_failed",
      message: `Cannot fetch ${url}: almost nothing arrived for 0.1 s`,
    });
    assert.deepEqual(at.left(), []);
  }
});

Deno.test("a body without end, and one that is announced too large", async () => {
  let began = false;
  await using server = serve(() => new Response(endless(64 * 1024)));
  await using large = serve(() => {
    const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
      pull(controller) {
        began = true;
        controller.enqueue(new Uint8Array(1 << 20));
        controller.close();
      },
    }, { highWaterMark: 0 });
    return new Response(body, { headers: { "content-length": String(1 << 20) } });
  });
  for (const { url } of [server, large]) {
    await using at = await fixture(1 << 19);
    await assert.rejects(httpTree(url).open(at.tools), {
      code: "build_failed",
      message: `Cannot fetch ${url}: it has more than 512 KiB`,
    });
    assert.deepEqual(at.left(), []);
  }
  assert.equal(began, true);
  await using at = await fixture(1 << 20);
  await using tree = await httpTree(large.url).open(at.tools);
  assert.equal((await Deno.stat(`${tree.root}/file`)).size, 1 << 20);
});

Deno.test("an archive that unpacks to more than allowed", async () => {
  const zeros = { path: "zeros", type: "file" as const, body: new Uint8Array(8 << 20) };
  const bomb = gzipSync(await new Response(writeTar([zeros])).bytes());
  await using server = serve(() => new Response(new Uint8Array(bomb)));
  for (const [most, fits] of [[1 << 20, false], [9 << 20, true]] as const) {
    await using at = await fixture();
    const opened = httpTree(server.url, { unpack: true })
      .open({ ...at.tools, maxUnpackedBytes: most });
    if (fits) await (await opened)[Symbol.asyncDispose]();
    else {
      await assert.rejects(opened, {
        code: "too_large",
        message: `Cannot unpack ${server.url}: it has more than 1.0 MiB unpacked`,
      });
    }
    assert.deepEqual(at.left(), []);
  }
});

Deno.test("a build that is cancelled while nothing comes", async () => {
  await using silent = mute();
  const abort = new AbortController();
  await using at = await fixture(undefined, abort.signal);
  const reason = new Error("enough");
  const connected = silent.connected();
  const fetching = httpTree(`http://127.0.0.1:${silent.port}/file`).identity(at.tools);
  fetching.catch(() => {/* looked at below */});
  await connected;
  abort.abort(reason);
  await assert.rejects(fetching, reason);
});

/** Processes whose command line has this word. */
function processesWith(word: string): string[] {
  return readNames("/proc").filter((pid) => {
    if (!/^\d+$/.test(pid)) return false;
    try {
      return Deno.readTextFileSync(`/proc/${pid}/cmdline`).includes(word);
    } catch {
      return false;
    }
  });
}

Deno.test("git: a server that does not answer, and helpers of git's that would wait for it", async () => {
  for (const scheme of ["http", "git"]) {
    await using silent = mute();
    await using at = await fixture();
    const remote = `${scheme}://127.0.0.1:${silent.port}/x.git`;
    await assert.rejects(gitTree({ remote }, { patienceMs: 300 }).identity(at.tools), {
      code: "upstream_failed",
      message: `Cannot fetch ${remote}: almost nothing arrived for 0.3 s`,
    });
    assert.deepEqual(processesWith(remote), []);
    const abort = new AbortController();
    await using cancelled = await fixture(undefined, abort.signal);
    const connected = silent.connected();
    const fetching = gitTree({ remote }).identity(cancelled.tools);
    fetching.catch(() => {/* looked at below */});
    await connected;
    abort.abort(new Error("enough"));
    await assert.rejects(fetching, /enough/);
    assert.deepEqual(processesWith(remote), []);
    assert.deepEqual([at.left(), cancelled.left()], [[], []]);
  }
});
