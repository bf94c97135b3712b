/** The mirror over the real client of other registries: tokens, broken connections, its own errors. */
import assert from "node:assert/strict";
import { openMemStore } from "../../backends/store/mem.ts";
import { answerRange, breakAfter, startFakeRegistry } from "../../test/peers/fake_registry.ts";
import { silent } from "../base/log.ts";
import { digestOf } from "../oci/digest.ts";
import { MEDIA } from "../oci/types.ts";
import { createContentStore } from "../store/content.ts";
import { openServerMirror } from "./mirror.ts";
import { createOutside } from "./outside.ts";

async function mirrorOf(upstreams: string, login?: { host: string; auth: string }) {
  const dir = await Deno.makeTempDir({ prefix: "svc-server-mirror-" });
  const dockerConfig = `${dir}/config.json`;
  const auths = login ? { [login.host]: { auth: btoa(login.auth) } } : {};
  await Deno.writeTextFile(dockerConfig, JSON.stringify({ auths }));
  const outside = createOutside({ dockerConfig, insecure: [], userAgent: "svc-test", log: silent });
  const objects = openMemStore();
  const store = createContentStore(objects, { log: silent });
  const mirror = await openServerMirror({
    upstreams,
    store,
    objects,
    cache: true,
    spool: `${dir}/spool`,
    log: silent,
    isOwn: outside.isOwn({ hostname: "127.0.0.1", port: 1 }),
    remote: outside.remote,
    freshMs: 0,
    pauseMs: 0,
  }).catch(async (error) => {
    await Deno.remove(dir, { recursive: true });
    throw error;
  });
  return {
    mirror,
    store,
    async [Symbol.asyncDispose]() {
      await mirror[Symbol.asyncDispose]();
      await Deno.remove(dir, { recursive: true });
    },
  };
}

const random = (size: number) => {
  const bytes = new Uint8Array(size);
  for (let at = 0; at < size; at += 65536) crypto.getRandomValues(bytes.subarray(at, at + 65536));
  return bytes;
};

Deno.test("server mirror: the upstream's tokens, by docker's logins", async () => {
  await using fake = startFakeRegistry();
  const tokens: string[] = [];
  fake.intercept = (request, url) => {
    if (url.pathname === "/token") {
      if (request.headers.get("authorization") !== `Basic ${btoa("ann:secret")}`) {
        return new Response(null, { status: 401 });
      }
      tokens.push(url.searchParams.get("scope")!);
      return Response.json({ token: "good", expires_in: 300 });
    }
    if (request.headers.get("authorization") === "Bearer good") return undefined;
    const challenge = `Bearer realm="http://${fake.host}/token",service="fake"`;
    return new Response(null, { status: 401, headers: { "www-authenticate": challenge } });
  };
  const blob = random(1000);
  fake.blobs.set(digestOf(blob), blob);
  const bytes = new TextEncoder().encode(
    JSON.stringify({ schemaVersion: 2, mediaType: MEDIA.index, manifests: [] }),
  );
  fake.manifests.set("org/app/v1", { type: MEDIA.index, bytes });

  await using it = await mirrorOf(`up=${fake.host}`, { host: fake.host, auth: "ann:secret" });
  const found = await it.mirror.resolve("up/org/app", "v1");
  assert.equal(found?.descriptor.digest, digestOf(bytes));
  assert.equal((await it.mirror.resolve("up/org/app", "v1"))?.stale, undefined);
  const body = await it.mirror.get("up/org/app", digestOf(blob));
  assert.deepEqual(
    new Uint8Array(await new Response(body!.stream() as BodyInit).arrayBuffer()),
    blob,
  );
  assert.deepEqual(tokens, ["repository:org/app:pull"]);
  assert.equal(fake.seen.filter(({ line }) => line === "HEAD /v2/org/app/manifests/v1").length, 1);

  await using stranger = await mirrorOf(`http://${fake.host}`);
  assert.equal(await stranger.mirror.resolve("org/app", "v1"), undefined);
  assert.equal(await stranger.mirror.stat("org/app", digestOf(blob)), undefined);
});

Deno.test("server mirror: a connection that breaks in mid-blob goes on where it was", async () => {
  await using fake = startFakeRegistry();
  const blob = random(3_000_000);
  const digest = digestOf(blob);
  fake.blobs.set(digest, blob);
  let broken = 0;
  fake.serveBlob = (bytes, request) =>
    broken++ === 0
      ? breakAfter(answerRange(bytes, request), bytes, 1_000_000)
      : answerRange(bytes, request);
  await using it = await mirrorOf(fake.host);
  const bodies = await Promise.all([1, 2, 3].map(() => it.mirror.get("app", digest)));
  for (const body of bodies) {
    const bytes = new Uint8Array(await new Response(body!.stream() as BodyInit).arrayBuffer());
    assert.equal(digestOf(bytes), digest);
  }
  assert.equal(broken, 2);
});

Deno.test("server mirror: this server cannot be its own upstream", async () => {
  await assert.rejects(mirrorOf("a=reg.example,http://127.0.0.1:1"), {
    code: "config_invalid",
    message: "Cannot use SVC_REGISTRY_MIRROR: 127.0.0.1:1 is this server itself",
  });
});
