import assert from "node:assert/strict";
import { shownName, shownRepository, storedName, upstreamName } from "./names.ts";

const OWN = ["127.0.0.1:5000"];

Deno.test("docker's names: where they are kept, and shown as they were", () => {
  const D = `sha256:${"a".repeat(64)}`;
  const cases: [name: string, repository: string, shown: string][] = [
    ["app", "app", "app:latest"],
    ["docker.io/library/alpine:3", "alpine", "alpine:3"],
    ["index.docker.io/me/app", "me/app", "me/app:latest"],
    ["127.0.0.1:5000/app:v1", "app", "app:v1"],
    ["ghcr.io/x/y:z", "ghcr.io/x/y", "ghcr.io/x/y:z"],
    ["localhost:5001/app:v1", "localhost__5001/app", "localhost:5001/app:v1"],
    ["localhost/testcontainers:1", "localhost/testcontainers", "localhost/testcontainers:1"],
    [`app@${D}`, "app", `app@${D}`],
  ];
  for (const [name, repository, shown] of cases) {
    const stored = storedName(name, OWN);
    assert.equal(stored.repository, repository, name);
    assert.equal(shownName(stored), shown, name);
  }
  assert.equal(shownRepository("a__5/b"), "a:5/b");
  assert.throws(() => storedName("[::1]:5000/app", OWN), /registry's name/);
});

Deno.test("docker's names: where they come from", () => {
  assert.deepEqual(upstreamName("alpine"), { host: "docker.io", repository: "library/alpine" });
  assert.deepEqual(upstreamName("me/app:v1"), {
    host: "docker.io",
    repository: "me/app",
    tag: "v1",
  });
  assert.deepEqual(upstreamName("localhost:5000/app"), {
    host: "localhost:5000",
    repository: "app",
  });
});
