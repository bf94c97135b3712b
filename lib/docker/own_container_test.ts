import assert from "node:assert/strict";
import { SvcError } from "../base/errors.ts";
import { HostPaths, pathPairsOf } from "./own_container.ts";

Deno.test("a server's paths on the host: the nearest mount counts, and what is declared overrides it", () => {
  const found = [
    { here: "/data", host: "/srv/svc" },
    { here: "/data/cache/", host: "/mnt/cache" },
    { here: "/run/docker.sock", host: "/var/run/docker.sock" },
  ];
  const paths = new HostPaths([], found, true);
  assert.equal(paths.toHost("/data"), "/srv/svc");
  assert.equal(paths.toHost("/data/a/b"), "/srv/svc/a/b");
  assert.equal(paths.toHost("/data/cache/x"), "/mnt/cache/x");
  assert.equal(paths.toHost("/data/cachet"), "/srv/svc/cachet");
  assert.equal(paths.toHost("/run/docker.sock"), "/var/run/docker.sock");
  assert.equal(paths.toServer("/mnt/cache/x"), "/data/cache/x");
  assert.equal(paths.toServer("/etc"), undefined);
  assert.equal(paths.toServer("/srv/svc/cache/x"), undefined, "another mount hides it");
  assert.deepEqual(paths.seenOf("/srv"), ["/data"]);
  assert.deepEqual(paths.seenOf("/mnt/cache/x"), ["/data/cache/x"]);
  assert.deepEqual(paths.seenOf("/"), ["/data", "/data/cache", "/run/docker.sock"]);
  assert.deepEqual(paths.seenOf("/etc"), []);
  for (const path of ["/database", "/", "/etc/passwd"]) {
    assert.throws(
      () => paths.toHost(path),
      (error) => error instanceof SvcError && error.help.includes("SVC_HOST_PATH_MAP"),
    );
  }
  const declared = new HostPaths(pathPairsOf(["/data=/other", "/=/root"]), found, true);
  assert.equal(declared.toHost("/data/a"), "/other/a");
  assert.equal(declared.toHost("/data/cache/x"), "/mnt/cache/x");
  assert.equal(declared.toHost("/etc/passwd"), "/root/etc/passwd");
  assert.equal(declared.toHost("/"), "/root");
  assert.equal(declared.toServer("/root/etc"), "/etc");
});

Deno.test("outside containers paths are the host's, but for those that are declared", () => {
  const paths = new HostPaths(pathPairsOf(["/data=/srv"]), [], false);
  assert.deepEqual(["/data/a", "/etc"].map((path) => paths.toHost(path)), ["/srv/a", "/etc"]);
  assert.equal(paths.toServer("/srv/a"), "/data/a");
  assert.equal(paths.toServer("/etc"), "/etc");
});
