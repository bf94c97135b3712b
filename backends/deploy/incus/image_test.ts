import assert from "node:assert/strict";
import { SvcError } from "../../../lib/base/errors.ts";
import type { ImageResolver, ResolvedImage } from "../../../lib/oci/resolver.ts";
import { imageFinder, pullFailure, sourceOf } from "./image.ts";

const digest = `sha256:${"a".repeat(64)}`;

Deno.test("the daemon gets an image by its digest; plain HTTP only where it is allowed", () => {
  const source = (name: string, insecure: string[] = []) => sourceOf({ name, digest }, insecure);
  assert.deepEqual(source("registry.example.org/team/app:v1"), {
    type: "image",
    mode: "pull",
    protocol: "oci",
    server: "https://registry.example.org",
    alias: `team/app@${digest}`,
  });
  assert.equal(source("10.0.0.1:5000/app").server, "https://10.0.0.1:5000");
  assert.equal(source("10.0.0.1:5000/app", ["10.0.0.1:5000"]).server, "http://10.0.0.1:5000");
  assert.equal(source("localhost:5000/app").server, "http://localhost:5000");
  assert.equal(source("localhost.example.org/app").server, "https://localhost.example.org");
  assert.throws(() => source("app"), { code: "unsupported", message: /by registry/ });
});

Deno.test("who may not read this server's images shows that the image's source has its layers", async () => {
  const image = {
    name: "registry.example.org/app:v1",
    repository: "app",
    descriptor: { digest },
    // Of somebody else's image: the config names one layer, the manifest none.
    manifest: { layers: [] },
    config: { rootfs: { diff_ids: [digest] } },
    apart: true,
  } as unknown as ResolvedImage;
  const images = (found: ResolvedImage) =>
    ({ resolve: () => Promise.resolve(found) }) as unknown as ImageResolver;
  const find = (found: ResolvedImage) =>
    imageFinder()("app", images(found), { onProgress: () => {} });
  await assert.rejects(find(image), { code: "manifest_invalid" });
  const { apart: _, ...own } = image;
  assert.equal((await find(own)).digest, digest);
});

Deno.test("what stands in the way of a pull, and what to do", () => {
  const failure = (words: string, name = "10.0.0.1:5000/app", insecure: string[] = []) =>
    pullFailure(
      new SvcError("upstream_failed", `Cannot deploy web: ${words}`),
      "Cannot deploy web",
      name,
      insecure,
    )!;
  const missing = failure('exec: "umoci": executable file not found in $PATH');
  assert.equal(missing.code, "prerequisite_missing");
  assert.match(missing.message, /the daemon's host has no umoci/);
  const plain = "http: server gave HTTP response to HTTPS client";
  const both = failure(plain);
  assert.match(both.help, /SVC_INCUS_INSECURE_REGISTRIES, and write .*registries\.conf\.d/);
  assert.match(both.help, /location = "10\.0\.0\.1:5000"/);
  const one = failure(plain, "10.0.0.1:5000/app", ["10.0.0.1:5000"]);
  assert.doesNotMatch(one.help, /SVC_INCUS_INSECURE_REGISTRIES/);
  assert.equal(failure("manifest unknown").code, "manifest_unknown");
  assert.equal(failure("no space left on device"), undefined);
});
