import assert from "node:assert/strict";
import type { ApiRoute } from "./route.ts";
import { Router } from "./router.ts";
import { ROUTES } from "./routes.ts";
import { MAX_VERSION } from "./versions.ts";

const handler = () => Promise.resolve({});
const router = new Router([
  { method: "GET", path: "/images/{name*}/json", handler },
  { method: "GET", path: "/containers/{id}/json", handler },
]);

Deno.test("docker API: a path is found with and without a version; names may have slashes", () => {
  const found = router.find("GET", "/v1.30/images/a.b:5000/c%2Fd/e/json");
  assert.equal(found.version, "1.30");
  assert.equal(found.path, "/images/a.b:5000/c%2Fd/e/json");
  assert.deepEqual(found.params, { name: "a.b:5000/c/d/e" });
  assert.equal(router.find("GET", "/containers/x/json").version, MAX_VERSION);
});

Deno.test("docker API: what is not there, and versions that are not spoken, are told in docker's words", () => {
  const refused: [string, string, string, RegExp][] = [
    ["GET", "/containers/a/b/json", "not_found", /^page not found$/],
    ["PUT", "/containers/a/json", "method_not_allowed", /no such method/],
    ["GET", "/v1.23/containers/a/json", "argument_invalid", /1\.23 is too old.*1\.24/],
    ["GET", "/v1.99/containers/a/json", "argument_invalid", /1\.99 is too new.*is 1\.\d+$/],
    ["GET", "/v2.0/containers/a/json", "argument_invalid", /too new/],
    ["GET", "/containers/%ff/json", "argument_invalid", /badly encoded/],
  ];
  for (const [method, path, code, message] of refused) {
    assert.throws(() => router.find(method, path), { code, message }, path);
  }
});

Deno.test("docker API: no two routes have the same method and path", () => {
  const keys = ROUTES.map(({ method, path }: ApiRoute) => `${method} ${path}`);
  assert.deepEqual(keys.filter((key, index) => keys.indexOf(key) !== index), []);
});
