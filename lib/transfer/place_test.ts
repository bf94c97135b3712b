import assert from "node:assert/strict";
import { SvcError } from "../base/errors.ts";
import { formatPlace, parsePlace } from "./place.ts";

const DIGEST = "sha256:" + "a".repeat(64);

Deno.test("place: names, with and without a host", () => {
  assert.deepEqual(parsePlace("app:v1"), { kind: "registry", repository: "app", tag: "v1" });
  assert.deepEqual(parsePlace(`localhost:5000/a/b@${DIGEST}`), {
    kind: "registry",
    host: "localhost:5000",
    repository: "a/b",
    digest: DIGEST,
  });
  assert.deepEqual(parsePlace("docker.io/busybox"), {
    kind: "registry",
    host: "docker.io",
    repository: "library/busybox",
  });
  assert.deepEqual(parsePlace("docker://busybox:1"), {
    kind: "registry",
    host: "docker.io",
    repository: "library/busybox",
    tag: "1",
  });
  // The name of a transport is a fine name of an image.
  assert.deepEqual(parsePlace("dir:v1"), { kind: "registry", repository: "dir", tag: "v1" });
});

Deno.test("place: layouts and archives, with a name, a digest or neither", () => {
  assert.deepEqual(parsePlace("oci:out"), { kind: "oci", path: "out" });
  assert.deepEqual(parsePlace("oci:./a/b:v1"), { kind: "oci", path: "./a/b", reference: "v1" });
  assert.deepEqual(parsePlace(`oci-archive:x.tar@${DIGEST}`), {
    kind: "oci-archive",
    path: "x.tar",
    digest: DIGEST,
  });
  assert.deepEqual(parsePlace("docker-archive:a.tar:localhost:5000/app:v1"), {
    kind: "docker-archive",
    path: "a.tar",
    reference: "localhost:5000/app:v1",
  });
  assert.deepEqual(parsePlace("oci:C:\\images:v1"), {
    kind: "oci",
    path: "C:\\images",
    reference: "v1",
  });
  assert.deepEqual(parsePlace("docker-archive:-"), { kind: "docker-archive", path: "/dev/stdin" });
});

Deno.test("place: paths are told from names", () => {
  for (const path of ["./app", "../app", "/tmp/app", "app.tar", "app.tar.gz", "app.tgz"]) {
    assert.deepEqual(parsePlace(path), { kind: "file", path });
  }
});

Deno.test("place: what is none says why", () => {
  const refused = (text: string, code: string, why: RegExp) =>
    assert.throws(
      () => parsePlace(text),
      (e) => e instanceof SvcError && e.code === code && why.test(e.message),
      text,
    );
  refused("oci:", "usage", /path is missing/);
  refused("oci:dir:", "usage", /name after the path is empty/);
  refused("oci:dir@sha256:12", "usage", /not a sha256/);
  refused("dir:/tmp/x", "usage", /dir: is nothing svc moves/);
  refused("docker-daemon:app:v1", "usage", /docker-daemon: is nothing/);
  refused("App", "reference_invalid", /lower case/);
});

Deno.test("place: written out again as it was", () => {
  for (
    const text of [
      "oci:out:v1",
      `oci-archive:x.tar@${DIGEST}`,
      "docker-archive:a.tar:app:v1",
      "./a",
    ]
  ) assert.equal(formatPlace(parsePlace(text)), text);
  assert.equal(formatPlace(parsePlace("app:v1"), "localhost:5000"), "localhost:5000/app:v1");
});
