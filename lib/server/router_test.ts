import assert from "node:assert/strict";
import fc from "fast-check";
import { runs } from "../../test/fixtures/property.ts";
import { SvcError } from "../base/errors.ts";
import type { Route } from "./route.ts";
import { Router } from "./router.ts";

const row = (method: Route["method"], path: string): Route => ({
  method,
  path,
  action: "any",
  help: "",
  handler: () => new Response(),
});

const router = new Router([
  row("GET", "/healthz"),
  row("GET", "/v2/"),
  row("GET", "/v2/_catalog"),
  row("GET", "/v2/{name+}/tags/list"),
  row("GET", "/v2/{name+}/blobs/{digest}"),
  row("HEAD", "/v2/{name+}/blobs/{digest}"),
  row("DELETE", "/v2/{name+}/blobs/{digest}"),
  row("POST", "/v2/{name+}/blobs/uploads/"),
  row("POST", "/v2/{name+}/blobs/uploads"),
  row("PATCH", "/v2/{name+}/blobs/uploads/{id}"),
  row("GET", "/v2/{name+}/manifests/{reference}"),
  row("PUT", "/v2/{name+}/manifests/{reference}"),
  row("GET", "/.svc/v1/deployments"),
  row("PUT", "/.svc/v1/deployments/{name}"),
  row("GET", "/.svc/v1/deployments/{name}"),
  row("POST", "/.svc/v1/deployments/{name}/start"),
  row("POST", "/.svc/v1/deployments/{name}/stop"),
]);

function found(method: string, path: string) {
  const match = router.match(method, path);
  assert.equal(match.kind, "found", `${method} ${path}`);
  if (match.kind !== "found") throw new Error("unreachable");
  return { path: match.route.path, method: match.route.method, params: match.params };
}

Deno.test("router: rows with and without parameters", () => {
  assert.equal(found("GET", "/healthz").path, "/healthz");
  assert.equal(found("GET", "/v2/").path, "/v2/");
  assert.equal(found("GET", "/v2/_catalog").path, "/v2/_catalog");
  assert.deepEqual(found("PUT", "/.svc/v1/deployments/web").params, { name: "web" });
  assert.equal(
    found("POST", "/.svc/v1/deployments/web/stop").path,
    "/.svc/v1/deployments/{name}/stop",
  );
});

Deno.test("router: a repository name takes several segments, even words of the API", () => {
  assert.deepEqual(found("GET", "/v2/a/b/c/blobs/sha256:1").params, {
    name: "a/b/c",
    digest: "sha256:1",
  });
  assert.deepEqual(found("GET", "/v2/a/blobs/b/blobs/x").params, {
    name: "a/blobs/b",
    digest: "x",
  });
  assert.deepEqual(found("GET", "/v2/tags/list/tags/list").params, { name: "tags/list" });
  assert.deepEqual(found("PATCH", "/v2/a/blobs/uploads/7").params, { name: "a", id: "7" });
  assert.deepEqual(found("GET", "/v2/manifests/manifests/manifests").params, {
    name: "manifests",
    reference: "manifests",
  });
});

Deno.test("router: literals win over parameters, trailing slashes count", () => {
  assert.equal(found("POST", "/v2/a/blobs/uploads/").path, "/v2/{name+}/blobs/uploads/");
  assert.equal(found("POST", "/v2/a/blobs/uploads").path, "/v2/{name+}/blobs/uploads");
  assert.equal(router.match("GET", "/healthz/").kind, "none");
  assert.equal(router.match("GET", "/v2").kind, "none");
});

Deno.test("router: HEAD has its own row or GET's", () => {
  assert.equal(found("HEAD", "/v2/a/blobs/x").method, "HEAD");
  assert.equal(found("HEAD", "/v2/a/manifests/x").method, "GET");
});

Deno.test("router: the wrong method names the right ones", () => {
  assert.deepEqual(router.match("POST", "/.svc/v1/deployments/web"), {
    kind: "method",
    allow: ["GET", "HEAD", "PUT"],
  });
  assert.deepEqual(router.match("PUT", "/healthz"), { kind: "method", allow: ["GET", "HEAD"] });
});

Deno.test("router: nothing there", () => {
  for (const path of ["/", "", "/x", "/v2//blobs/x", "/v2/blobs/x", "/.svc/v1/deployments/"]) {
    assert.equal(router.match("GET", path).kind, "none", path);
  }
});

Deno.test("router: parameters are decoded once, bad encoding is refused", () => {
  assert.deepEqual(found("GET", "/.svc/v1/deployments/a%2Fb%2525").params, { name: "a/b%25" });
  assert.throws(
    () => router.match("GET", "/.svc/v1/deployments/%ZZ"),
    (error) => error instanceof SvcError && error.code === "argument_invalid",
  );
});

Deno.test("router: any name and reference come back as they were sent", () => {
  const segment = fc.stringMatching(/^[a-z0-9._-]{1,8}$/);
  fc.assert(
    fc.property(fc.array(segment, { minLength: 1, maxLength: 6 }), segment, (parts, ref) => {
      const name = parts.join("/");
      assert.deepEqual(found("PUT", `/v2/${name}/manifests/${ref}`).params, {
        name,
        reference: ref,
      });
    }),
  );
});

Deno.test("router: no path makes it fail in another way, or gives an empty parameter", () => {
  const part = fc.constantFrom(
    "a",
    "v2",
    "blobs",
    "manifests",
    "uploads",
    "tags",
    "list",
    "",
    "..",
    "%2f",
    "%00",
    "%",
    "%zz",
    "%c3%28",
  );
  fc.assert(
    fc.property(fc.array(part, { maxLength: 8 }), (parts) => {
      try {
        const match = router.match("GET", `/${parts.join("/")}`);
        if (match.kind !== "found") return;
        for (const value of Object.values(match.params)) assert.notEqual(value, "");
      } catch (error) {
        assert.equal((error as { code?: string }).code, "argument_invalid");
      }
    }),
    runs(500),
  );
});

Deno.test("router: rows that cannot be told apart are a defect", () => {
  for (
    const rows of [
      [row("GET", "/a"), row("GET", "/a")],
      [row("GET", "/a/{x}"), row("GET", "/a/{y}")],
      [row("GET", "a")],
      [row("GET", "/{x+}/{y+}")],
      [row("GET", "/{x}/{x}")],
      [row("GET", "/a{x}")],
    ]
  ) assert.throws(() => new Router(rows), /^Error: route/);
});
