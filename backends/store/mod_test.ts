import assert from "node:assert/strict";
import { buildInfo, setBuildInfo } from "../../lib/base/build_info.ts";
import { openStorage, parseStorage } from "./mod.ts";

Deno.test("parseStorage: paths, file, mem", () => {
  const cases: [string | undefined, string, string][] = [
    [undefined, "fs", "/data/registry"],
    ["", "fs", "/data/registry"],
    ["/srv/store", "fs", "/srv/store"],
    ["./store", "fs", "./store"],
    ["file:///srv/my%20store", "fs", "/srv/my store"],
    ["file://store", "fs", "store"],
    ["mem://", "mem", "mem://"],
    ["MEM://", "mem", "MEM://"],
  ];
  for (const [value, backend, location] of cases) {
    assert.deepEqual(
      parseStorage(value, "/data"),
      { backend, location, shown: location },
      value,
    );
  }
});

Deno.test("parseStorage: what is not in this build, and what is not understood", () => {
  const fails = (value: string, code: string, message: RegExp) =>
    assert.throws(() => parseStorage(value, "/data"), { code, message }, value);
  fails("s3://bucket?secret_key=hush", "config_invalid", /^(?!.*hush).*s3:\/\/bucket: access_key/);
  fails("s3://bucket?regoin=x", "config_invalid", /did you mean region\?/);
  fails("gs://bucket", "not_in_build", /cloudblob/);
  fails(
    "azblob://container?access_key=a&secret_key=hush",
    "not_in_build",
    /^(?!.*hush).*cloudblob/,
  );
  fails("fil:///x", "config_invalid", /did you mean file\?/);
  fails("mem://x", "config_invalid", /takes nothing/);
  fails("file://", "config_invalid", /and a path/);
  fails("file://%", "config_invalid", /and a path/);
});

Deno.test("parseStorage: with the tag cloudblob", () => {
  const info = buildInfo();
  setBuildInfo({ ...info, tags: ["cloudblob"] });
  try {
    assert.equal(parseStorage("gs://bucket/team", "/data").backend, "gcs");
    const value = "azblob://container?access_key=a&secret_key=hush";
    assert.deepEqual(parseStorage(value, "/data"), {
      backend: "azure",
      location: value,
      shown: "azblob://container",
    });
    const fails = (wrong: string, message: RegExp) =>
      assert.throws(() => parseStorage(wrong, "/data"), { code: "config_invalid", message }, wrong);
    fails("gs://b", /not a bucket's name/);
    fails("gs://bucket?access_key=hush&secret_key=hush", /^(?!.*hush).*unknown parameter/);
    fails("azblob://", /no container/);
    fails("azblob://Container", /not a container's name/);
    fails("azblob://container?secret_key=hush", /^(?!.*hush).*belong together/);
    fails("azblob://container?account=x&access_key=a&secret_key=hush", /^(?!.*hush).*differ/);
    fails("azblob://container?endpont=x", /did you mean endpoint\?/);
  } finally {
    setBuildInfo(info);
  }
});

Deno.test("parseStorage: what may be shown has no credentials", () => {
  const value = "s3://bucket/team?access_key=AK&secret_key=hush&path_style=true";
  assert.deepEqual(parseStorage(value, "/data"), {
    backend: "s3",
    location: value,
    shown: "s3://bucket/team",
  });
});

Deno.test("openStorage opens what was parsed", async () => {
  const root = await Deno.makeTempDir({ prefix: "svc-store-" });
  try {
    for (const value of ["mem://", undefined]) {
      await using store = await openStorage(parseStorage(value, root));
      await store.put("k", new Uint8Array(3));
      assert.equal((await store.stat("k"))?.size, 3);
    }
    assert.ok((await Deno.stat(`${root}/registry/objects/k`)).isFile);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});
