import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { MAY_NOT_PULL_VIA } from "../auth/internal.ts";
import { type ErrorCode, SvcError } from "../base/errors.ts";
import { MEDIA } from "../oci/types.ts";
import { isLoopback, ownHosts } from "./hosts.ts";
import { createImageResolver, type Registry } from "./images.ts";

const digest = (bytes: Uint8Array) => `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
const encode = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));

/** A registry of maps; `down` makes every call fail. */
class FakeRegistry implements Registry {
  blobs = new Map<string, Uint8Array>();
  manifests = new Map<string, { mediaType: string; bytes: Uint8Array }>();
  down?: Error;

  add(mediaType: string, value: unknown, ...keys: string[]) {
    const bytes = encode(value);
    for (const key of [...keys, digest(bytes)]) this.manifests.set(key, { mediaType, bytes });
    return { mediaType, digest: digest(bytes), size: bytes.length };
  }

  image(os: string, architecture: string, ...tags: string[]) {
    const config = encode({ os, architecture, rootfs: { type: "layers", diff_ids: [] } });
    this.blobs.set(digest(config), config);
    return this.add(MEDIA.manifest, {
      schemaVersion: 2,
      config: { mediaType: MEDIA.config, digest: digest(config), size: config.length },
      layers: [],
    }, ...tags);
  }

  resolve(repository: string, reference: string) {
    if (this.down) return Promise.reject(this.down);
    const found = this.manifests.get(`${repository}:${reference}`) ?? this.manifests.get(reference);
    return Promise.resolve(
      found && {
        bytes: found.bytes,
        descriptor: {
          mediaType: found.mediaType,
          digest: digest(found.bytes),
          size: found.bytes.length,
        },
      },
    );
  }

  get(_repository: string, wanted: string) {
    const bytes = this.blobs.get(wanted);
    return Promise.resolve(
      bytes && {
        size: bytes.length,
        stream: () => new Blob([new Uint8Array(bytes)]).stream() as ReadableStream<Uint8Array>,
      },
    );
  }

  stat = () => Promise.reject(new Error("not asked here"));
  tags = () => {
    throw new Error("not asked here");
  };
  referrers = () => {
    throw new Error("not asked here");
  };
  hasBlob = () => Promise.reject(new Error("not asked here"));
  putBlob = () => Promise.reject(new Error("not asked here"));
  putManifest = () => Promise.reject(new Error("not asked here"));
}

function setUp() {
  const local = new FakeRegistry();
  const remotes = new Map<string, FakeRegistry>();
  const asked: string[] = [];
  const resolver = createImageResolver({
    local: { source: local, sink: local },
    isOwn: (host) => host === "localhost:5000" || host === "me:5000",
    ownHost: () => "localhost:5000",
    remote: (host, _login, via) => {
      asked.push(via === undefined ? host : `${host} via ${via}`);
      const registry = remotes.get(host) ?? new FakeRegistry();
      remotes.set(host, registry);
      return registry;
    },
  });
  const remote = (host: string) => {
    const registry = new FakeRegistry();
    remotes.set(host, registry);
    return registry;
  };
  return { local, remote, remotes, resolver, asked };
}

const refuses = (promise: Promise<unknown>, code: ErrorCode, message: RegExp) =>
  assert.rejects(promise, (error) => {
    assert(error instanceof SvcError, String(error));
    assert.equal(error.code, code);
    assert.match(error.message, message);
    return true;
  });

const AMD = { os: "linux", architecture: "amd64" };

Deno.test("images: our own names never leave the process", async () => {
  const { local, resolver, asked } = setUp();
  const { digest } = local.image("linux", "amd64", "team/app:v1", "team/app:latest");
  for (const name of ["localhost:5000/team/app:v1", "me:5000/team/app", "team/app:v1"]) {
    const image = await resolver.resolve(name, { platform: AMD });
    assert.equal(image.source, local);
    assert.equal(image.repository, "team/app");
    assert.equal(image.descriptor.digest, digest);
    assert.equal(image.config.architecture, "amd64");
  }
  const byDigest = await resolver.resolve(`team/app@${digest}`, { platform: AMD });
  assert.equal(byDigest.name, `localhost:5000/team/app@${digest}`);
  await refuses(
    resolver.resolve("localhost:5000/team/app:v9"),
    "manifest_unknown",
    /localhost:5000\/team\/app:v9: this server's registry does not have it/,
  );
  assert.deepEqual(asked, []);
});

Deno.test("images: an index gives the platform's image, through nested ones too", async () => {
  const { local, resolver } = setUp();
  const amd = local.image("linux", "amd64");
  const arm = local.image("linux", "arm64");
  const inner = local.add(MEDIA.index, {
    schemaVersion: 2,
    manifests: [{ ...arm, platform: { os: "linux", architecture: "arm64" } }],
  });
  local.add(MEDIA.dockerList, {
    schemaVersion: 2,
    manifests: [
      { ...amd, platform: AMD },
      { ...inner, platform: { os: "linux", architecture: "arm64" } },
    ],
  }, "app:v1");
  const at = async (architecture: string) =>
    (await resolver.resolve("app:v1", { platform: { os: "linux", architecture } })).descriptor
      .digest;
  assert.equal(await at("amd64"), amd.digest);
  assert.equal(await at("arm64"), arm.digest);
  await refuses(at("s390x"), "manifest_unknown", /no image for linux\/s390x/);
});

Deno.test("images: names elsewhere are asked for there; docker.io has its own rules", async () => {
  const { remote, resolver, asked } = setUp();
  remote("reg.example").image("linux", "amd64", "a/b:latest");
  remote("docker.io").image("linux", "amd64", "library/busybox:1", "u/x:latest");
  const first = await resolver.resolve("reg.example/a/b", { platform: AMD });
  assert.equal(first.name, "reg.example/a/b:latest");
  const hub = await resolver.resolve("busybox:1", { platform: AMD });
  assert.equal(hub.name, "docker.io/library/busybox:1");
  assert.equal(hub.repository, "library/busybox");
  assert.equal((await resolver.resolve("docker.io/u/x", { platform: AMD })).repository, "u/x");
  await resolver.resolve("reg.example/a/b", { platform: AMD });
  assert.deepEqual(asked, ["reg.example", "docker.io"]);
  await refuses(
    resolver.resolve("nope:1"),
    "manifest_unknown",
    /this server's registry and docker/,
  );
});

Deno.test("images: an upstream that cannot be asked is not a missing image", async () => {
  const { remote, resolver } = setUp();
  remote("docker.io").down = new SvcError("upstream_failed", "Cannot reach it");
  await refuses(
    resolver.resolve("alpine"),
    "upstream_failed",
    /^Cannot resolve alpine: this server's registry does not have it, and docker\.io cannot be asked: Cannot reach it$/,
  );
});

Deno.test("images: other artifacts and damaged images are refused", async () => {
  const { local, resolver } = setUp();
  local.add("application/vnd.example+json", { hello: 1 }, "odd:v1");
  await refuses(resolver.resolve("odd:v1"), "manifest_invalid", /is not a container image/);
  const config = encode({ not: "an image" });
  local.blobs.set(digest(config), config);
  const chart = { mediaType: "application/x", digest: digest(config), size: config.length };
  local.add(MEDIA.manifest, { schemaVersion: 2, config: chart, layers: [] }, "chart:v1");
  await refuses(resolver.resolve("chart:v1"), "manifest_invalid", /not a container image's/);
  const gone = { mediaType: MEDIA.config, digest: `sha256:${"0".repeat(64)}`, size: 1 };
  local.add(MEDIA.manifest, { schemaVersion: 2, config: gone, layers: [] }, "gone:v1");
  await refuses(resolver.resolve("gone:v1"), "blob_unknown", /its config .* is missing/);
});

Deno.test("images: where a name is published", () => {
  const { local, remote, resolver } = setUp();
  const other = remote("reg.example");
  const hub = remote("docker.io");
  const at = (name: string) => {
    const { sink, ...rest } = resolver.target(name);
    return { ...rest, own: sink === local, other: sink === other, hub: sink === hub };
  };
  const none = { own: false, other: false, hub: false };
  assert.deepEqual(at("app"), {
    ...none,
    own: true,
    repository: "app",
    tag: "latest",
    name: "localhost:5000/app:latest",
  });
  assert.deepEqual(at("me:5000/a/b:v2"), {
    ...none,
    own: true,
    repository: "a/b",
    tag: "v2",
    name: "me:5000/a/b:v2",
  });
  assert.deepEqual(at("reg.example/a:v1"), {
    ...none,
    other: true,
    repository: "a",
    tag: "v1",
    name: "reg.example/a:v1",
  });
  assert.deepEqual(at("docker.io/me/a:v1"), {
    ...none,
    hub: true,
    repository: "me/a",
    tag: "v1",
    name: "docker.io/me/a:v1",
  });
  assert.throws(
    () => resolver.target(`app@sha256:${"0".repeat(64)}`),
    (error) => error instanceof SvcError && error.code === "reference_invalid",
  );
});

Deno.test("images: names without a registry mean the caller's, where it has one", async () => {
  const { local, remote, resolver } = setUp();
  const home = remote("home.example");
  const theirs = resolver.forCaller!({ registry: "home.example" });
  const { sink, own, name } = theirs.target("app");
  assert.deepEqual([sink === home, own, name], [true, undefined, "home.example/app:latest"]);
  assert.equal(theirs.place("cache:main").name, "home.example/cache:main");
  assert.equal(theirs.target("me:5000/app").own, local);
  local.image("linux", "amd64", "base:latest");
  assert.equal(
    (await theirs.resolve("base", { platform: AMD })).name,
    "localhost:5000/base:latest",
  );
  home.image("linux", "amd64", "base:latest");
  assert.equal((await theirs.resolve("base", { platform: AMD })).name, "home.example/base:latest");
  assert.equal(
    (await resolver.resolve("base", { platform: AMD })).name,
    "localhost:5000/base:latest",
  );
  const same = resolver.forCaller!({ registry: "localhost:5000" });
  assert.equal(same.target("app").own, local, "a registry that is this server is no other");
});

Deno.test("hosts: which names are this server", () => {
  const own = (hostname: string, port: number, advertised?: string) =>
    ownHosts({
      address: { hostname, port },
      advertised,
      machine: () => ["box", "10.0.0.7", "fe80::1"],
    });
  const all = own("::", 5000, "reg.lan");
  for (
    const host of [
      "localhost:5000",
      "127.0.0.1:5000",
      "[::1]:5000",
      "BOX:5000",
      "10.0.0.7:5000",
      "[fe80::1]:5000",
      "reg.lan",
      "REG.lan",
    ]
  ) assert.equal(all(host), true, host);
  for (const host of ["localhost:5001", "localhost", "reg.lan:5000", "10.0.0.8:5000"]) {
    assert.equal(all(host), false, host);
  }
  assert.equal(own("10.0.0.7", 5000)("localhost:5000"), false);
  assert.equal(own("10.0.0.7", 5000)("10.0.0.7:5000"), true);
  assert.equal(own("127.0.0.1", 80)("localhost"), true);
  assert.equal(own("::1", 5000)("localhost:5000"), true);
  const behind = own("127.0.0.1", 7, "localhost:5000");
  assert.equal(behind("127.0.0.1:5000"), true, "another name of what is advertised");
  assert.equal(behind("127.0.0.1:5001"), false);
});

Deno.test("hosts: loopback", () => {
  for (const host of ["localhost", "localhost:1", "a.localhost:1", "127.9.9.9:1", "[::1]:1"]) {
    assert.equal(isLoopback(host), true, host);
  }
  for (const host of ["localhost.example", "128.0.0.1", "[::2]:1", "127.0.0.1.example"]) {
    assert.equal(isLoopback(host), false, host);
  }
});

Deno.test("images: for a caller who may not pull, nothing of this server is read by any name", async () => {
  const { local, remote, resolver, asked } = setUp();
  const { digest } = local.image("linux", "amd64", "team/app:v1");
  remote("docker.io").image("linux", "amd64", "library/debian:12");
  remote("reg.example").image("linux", "amd64", "team/app:v1");
  const caller = resolver.forCaller!({ mayPull: false });
  const why = /is an image of this server, and no rule allows the caller to pull/;
  const names = ["localhost:5000/team/app:v1", "me:5000/team/app:v1", "team/app:v1"];
  for (const name of [...names, `team/app@${digest}`, "me:5000/not/there:v1"]) {
    await refuses(caller.resolve(name, { platform: AMD }), "denied", why);
    const { source, repository, reference } = caller.place(name);
    await refuses(source.resolve(repository, reference), "denied", why);
    await refuses(source.get(repository, digest), "denied", why);
  }
  // A further narrowing, as for its logins, does not take it back.
  await refuses(caller.forCaller!({}).resolve("team/app:v1"), "denied", why);
  for (const name of ["debian:12", "reg.example/team/app:v1"]) {
    assert.equal((await caller.resolve(name, { platform: AMD })).apart, true);
  }
  // Should one of them be this server after all, it is told for whom it is asked.
  assert.deepEqual(
    asked,
    ["docker.io", "reg.example"].map((host) => `${host} via ${MAY_NOT_PULL_VIA}`),
  );
  const logins = new Map([["reg.example", { token: "t" }]]);
  await caller.forCaller!({ logins }).resolve("reg.example/team/app:v1", { platform: AMD });
  assert.equal(asked.at(-1), `reg.example via ${MAY_NOT_PULL_VIA}`);
  assert.equal((await resolver.resolve("team/app:v1", { platform: AMD })).apart, undefined);
  const target = caller.target("team/app:v2");
  assert.equal(target.sink, local);
  assert.equal(target.own, undefined);
});

function withEngine() {
  const base = setUp();
  const engine = Object.assign(new FakeRegistry(), {
    locate(repository: string, tag: string) {
      const name = `${repository}:${tag}`;
      return Promise.resolve(engine.manifests.has(name) ? `engine's ${name}` : undefined);
    },
  });
  const resolver = createImageResolver({
    local: { source: engine, sink: base.local, engine, kept: base.local },
    isOwn: (host) => host === "localhost:5000",
    ownHost: () => "localhost:5000",
    remote: (host) => base.remotes.get(host) ?? new FakeRegistry(),
  });
  return { ...base, engine, resolver };
}

Deno.test("images: what the engine has is not asked of its registry, unless that is wanted", async () => {
  const { engine, remote, resolver } = withEngine();
  const { digest: had } = engine.image("linux", "amd64", "ghcr.io/org/tool:v1");
  const hub = remote("ghcr.io");
  const { digest: newer } = hub.image("linux", "amd64", "org/tool:v1", "org/tool:v2");
  const { digest: arm } = hub.image("linux", "arm64", "org/tool:v1-arm");
  const find = async (name: string, more = {}) =>
    (await resolver.resolve(name, { platform: AMD, ...more })).descriptor.digest;
  hub.manifests.set("org/tool:v1", hub.manifests.get(newer)!);
  assert.equal(await find("ghcr.io/org/tool:v1"), had);
  assert.equal(await find("ghcr.io/org/tool:v2"), newer);
  assert.equal(await find("ghcr.io/org/tool:v1", { pull: true }), newer);
  // The caller may not see this server's images.
  const stranger = resolver.forCaller!({ mayPull: false });
  const { descriptor } = await stranger.resolve("ghcr.io/org/tool:v1", { platform: AMD });
  assert.equal(descriptor.digest, newer);
  // The engine has another platform than the one that is asked for.
  hub.manifests.set("org/tool:v1", hub.manifests.get(arm)!);
  const platform = { os: "linux", architecture: "arm64" };
  assert.equal(await find("ghcr.io/org/tool:v1", { platform }), arm);
  engine.down = new SvcError("unavailable", "away");
  assert.equal(await find("ghcr.io/org/tool:v2"), newer);
});

Deno.test("images: an engine's image of another platform gives way to the registry's", async () => {
  const { engine, remote, resolver } = withEngine();
  const hub = remote("docker.io");
  const { digest: had } = engine.image("linux", "amd64", "base:latest");
  const platform = { os: "linux", architecture: "arm64" };
  assert.equal((await resolver.resolve("base", { platform: AMD })).descriptor.digest, had);
  assert.equal((await resolver.resolve("base", { platform })).descriptor.digest, had);
  const { digest: arm } = hub.image("linux", "arm64", "library/base:latest");
  assert.equal((await resolver.resolve("base", { platform })).descriptor.digest, arm);
  assert.equal((await resolver.resolve("base", { platform: AMD })).descriptor.digest, had);
});

Deno.test("images: an image that the engine has is not read for a deployment", async () => {
  const { engine, local, resolver } = withEngine();
  engine.image("linux", "amd64", "app:v1", "app:v2", "r.corp:5000/app:latest");
  assert.equal(await resolver.held!("app:v1"), "engine's app:v1");
  assert.equal(await resolver.held!("localhost:5000/app:v1"), "engine's app:v1");
  assert.equal(await resolver.held!("r.corp:5000/app"), "engine's r.corp:5000/app:latest");
  assert.equal(await resolver.held!("app:v9"), undefined);
  // What the server keeps itself comes first.
  local.image("linux", "amd64", "app:v2");
  assert.equal(await resolver.held!("app:v2"), undefined);
  const stranger = resolver.forCaller!({ mayPull: false });
  assert.equal(await stranger.held!("app:v1"), undefined);
  const away = resolver.forCaller!({ registry: "other.example" });
  assert.equal(await away.held!("app:v1"), undefined);
  const { resolver: plain } = setUp();
  assert.equal(await plain.held!("app:v1"), undefined);
});
