import assert from "node:assert/strict";
import { parseRegistryMirror } from "./registry_mirror.ts";

Deno.test("mirror option: one upstream, as a host or a URL", () => {
  const read = (text: string) => parseRegistryMirror(text, "SVC_REGISTRY_MIRROR");
  assert.deepEqual(read("reg.example:5000"), [{ host: "reg.example:5000" }]);
  assert.deepEqual(read("http://[::1]:5000/"), [{ host: "[::1]:5000", scheme: "http" }]);
  assert.deepEqual(read("https://reg.example"), [{ host: "reg.example", scheme: "https" }]);
});

Deno.test("mirror option: several by prefix, one of them for the rest", () => {
  assert.deepEqual(
    parseRegistryMirror(
      "docker.io=https://registry-1.docker.io, a/b=http://x:1 ,rest.example",
      "S",
    ),
    [
      { prefix: "docker.io", host: "registry-1.docker.io", scheme: "https" },
      { prefix: "a/b", host: "x:1", scheme: "http" },
      { host: "rest.example" },
    ],
  );
});
