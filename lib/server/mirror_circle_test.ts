/** Registries that mirror each other: a question that comes back to its asker ends there. */
import assert from "node:assert/strict";
import { openMemStore } from "../../backends/store/mem.ts";
import { createLogger, silent } from "../base/log.ts";
import { digestOf } from "../oci/digest.ts";
import { MEDIA } from "../oci/types.ts";
import { createRegistry } from "../registry/registry.ts";
import { createContentStore } from "../store/content.ts";
import type { ContentStore } from "../store/content_store.ts";
import { openAccess } from "./access.ts";
import { Lifecycle } from "./lifecycle.ts";
import { type Handler, listen } from "./listener.ts";
import { openServerMirror } from "./mirror.ts";
import { createOutside } from "./outside.ts";
import { Router } from "./router.ts";
import { createHandler } from "./server.ts";

interface Member {
  base: string;
  store: ContentStore;
  /** Requests that were made of it: method, path and how many mirrors they came through. */
  asked: string[];
  /** Warnings of circles. */
  circles: string[];
}

/** `count` servers, each the mirror of the next one, the last one of the first. */
async function ring(count: number, cache = true) {
  const stack = new AsyncDisposableStack();
  const dir = await Deno.makeTempDir({ prefix: "svc-circle-" });
  stack.defer(() => Deno.remove(dir, { recursive: true }));
  const outside = createOutside({
    dockerConfig: `${dir}/config.json`,
    insecure: [],
    userAgent: "svc-test",
    log: silent,
  });
  const handlers: Handler[] = [];
  const members: Member[] = [];
  for (let n = 0; n < count; n++) {
    const asked: string[] = [];
    const listener = await listen({ hostname: "127.0.0.1", port: 0 }, (request, ...rest) => {
      const hops = request.headers.get("via")?.split(",").length ?? 0;
      asked.push(`${request.method} ${new URL(request.url).pathname} ${hops}`);
      return handlers[n](request, ...rest);
    });
    stack.defer(() => listener.close());
    const base = `http://127.0.0.1:${listener.address.port}`;
    const store = createContentStore(openMemStore(), { log: silent });
    members.push({ base, store, asked, circles: [] });
  }
  for (const [n, { base, store, circles }] of members.entries()) {
    const write = (line: string) => {
      if (line.includes("circle")) circles.push(line);
    };
    const mirror = await openServerMirror({
      upstreams: members[(n + 1) % count].base,
      store,
      objects: openMemStore(),
      cache,
      spool: `${dir}/spool${n}`,
      log: createLogger({ level: "warn", format: "json", write }),
      isOwn: (host) => base.endsWith(host),
      remote: outside.remote,
      freshMs: 0,
      pauseMs: 0,
    });
    stack.use(mirror);
    const lifecycle = new Lifecycle();
    lifecycle.serving();
    handlers[n] = createHandler({
      router: new Router(createRegistry({ reader: mirror, writer: mirror })),
      access: openAccess,
      lifecycle,
      log: silent,
    });
  }
  return { members, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

async function status(url: string, method = "GET"): Promise<number> {
  const response = await fetch(url, { method });
  await response.body?.cancel();
  return response.status;
}

const nothing = digestOf(new Uint8Array([1, 2, 3]));
const MISSING = [
  ["/v2/app/manifests/v1", 404],
  [`/v2/app/manifests/${nothing}`, 404],
  [`/v2/app/blobs/${nothing}`, 404],
  ["/v2/app/tags/list", 404],
  [`/v2/app/referrers/${nothing}`, 200],
] as const;

for (const [count, cache] of [[2, true], [2, false], [3, true]] as const) {
  Deno.test(`mirrors in a circle of ${count}, cache ${cache}: what nobody has ends where it began`, async () => {
    await using it = await ring(count, cache);
    for (const [path, expected] of MISSING) {
      for (const { base } of it.members) {
        assert.equal(await status(base + path), expected, path);
        assert.equal(await status(base + path, "HEAD"), expected, path);
      }
    }
    for (const { asked, circles } of it.members) {
      const hops = asked.map((line) => Number(line.split(" ").at(-1)));
      assert.equal(Math.max(...hops), count, "each mirror is asked until it is the asker's turn");
      assert.equal(circles.length, 1, "one warning, not one for each request");
      assert.match(circles[0], /change SVC_REGISTRY_MIRROR/);
    }
  });
}

Deno.test("mirrors in a circle: questions at the same time do not wait for each other", async () => {
  await using it = await ring(2);
  const all = MISSING.flatMap(([path, expected]) =>
    it.members.flatMap(({ base }) =>
      Array.from({ length: 8 }, async () => assert.equal(await status(base + path), expected, path))
    )
  );
  // Waiting for each other, they would do so until their clients give up: no such silence is waited for.
  await Promise.all(all);
});

Deno.test("mirrors in a circle: what one has, all have", async () => {
  await using it = await ring(3);
  const [first, , last] = it.members;
  const bytes = new TextEncoder().encode("a layer");
  const layer = { mediaType: MEDIA.layerTar, digest: digestOf(bytes), size: bytes.length };
  await last.store.putBlob("app", layer, ReadableStream.from([bytes]));
  const manifest = new TextEncoder().encode(JSON.stringify({
    schemaVersion: 2,
    mediaType: MEDIA.manifest,
    config: layer,
    layers: [layer],
  }));
  await last.store.putManifest("app", MEDIA.manifest, manifest, ["v1"]);
  const found = await fetch(`${first.base}/v2/app/manifests/v1`);
  assert.equal(found.headers.get("docker-content-digest"), digestOf(manifest));
  assert.deepEqual(new Uint8Array(await found.arrayBuffer()), manifest);
  const blob = await fetch(`${first.base}/v2/app/blobs/${layer.digest}`);
  assert.deepEqual(new Uint8Array(await blob.arrayBuffer()), bytes);
  const tags = await (await fetch(`${first.base}/v2/app/tags/list`)).json();
  assert.deepEqual(tags, { name: "app", tags: ["v1"] });
});
