import assert from "node:assert/strict";
import type { IngressRoute } from "../api/ingress.ts";
import { SvcError } from "../base/errors.ts";
import { requestedHost } from "./host_name.ts";
import { IngressTable } from "./table.ts";

const route = (
  deployment: string,
  host: string,
  path = "/",
  pathType: "Exact" | "Prefix" = "Prefix",
): IngressRoute => ({ host, path, pathType, deployment, port: 80, tls: false });

function tableOf(...routes: IngressRoute[]): IngressTable {
  const table = new IngressTable();
  for (const [name, own] of Map.groupBy(routes, ({ deployment }) => deployment)) {
    table.set(name, own);
  }
  return table;
}

const answers = (table: IngressTable, host: string, path: string) =>
  table.match(host, path)?.deployment;

Deno.test("table: an exact host before a wildcard, which takes one label", () => {
  const table = tableOf(
    route("any", "*.a.test"),
    route("one", "one.a.test"),
    route("some", "some.a.test", "/api"),
  );
  assert.equal(answers(table, "one.a.test", "/"), "one");
  assert.equal(answers(table, "two.a.test", "/"), "any");
  assert.equal(answers(table, "a.test", "/"), undefined);
  assert.equal(answers(table, "x.two.a.test", "/"), undefined);
  assert.equal(answers(table, "some.a.test", "/api"), "some");
  // The wildcard is for every name, and nobody else claims this path of it.
  assert.equal(answers(table, "some.a.test", "/other"), "any");
  assert.equal(answers(table, "", "/"), undefined);
  assert.equal(answers(table, ".a.test", "/"), undefined);
  assert.equal(answers(table, requestedHost("ONE.a.test.:8080")!, "/"), "one");
});

Deno.test("table: longer paths before shorter ones, exact ones before prefixes", () => {
  const table = tableOf(
    route("root", "a.test"),
    route("api", "a.test", "/api"),
    route("v1", "a.test", "/api/v1/"),
    route("health", "a.test", "/api", "Exact"),
    route("slash", "a.test", "/only/", "Exact"),
  );
  const cases = [
    ["/", "root"],
    ["/apis", "root"],
    ["/api", "health"],
    ["/api/", "api"],
    ["/api/v1", "v1"],
    ["/api/v1/", "v1"],
    ["/api/v1/x", "v1"],
    ["/api/v10", "api"],
    ["/API", "root"],
    ["/only/", "slash"],
    ["/only", "root"],
    ["/only/x", "root"],
  ];
  for (const [path, expected] of cases) {
    assert.equal(answers(table, "a.test", path), expected, path);
  }
});

Deno.test("table: the second to claim a host and path is refused with the holder's name", () => {
  const table = tableOf(route("first", "a.test", "/api"));
  const refuse = (routes: IngressRoute[]) =>
    assert.throws(() => table.claim("second", routes), (error) => {
      assert(error instanceof SvcError);
      assert.equal(error.code, "conflict");
      assert.equal(
        error.message,
        "Cannot deploy second: ingress host a.test, path /api, belongs to deployment first",
      );
      return true;
    });
  refuse([route("second", "b.test"), route("second", "a.test", "/api/")]);
  // Neither is what was free of it taken.
  assert.equal(answers(table, "b.test", "/"), undefined);
  table.set("second", [route("second", "a.test"), route("second", "a.test", "/api", "Exact")]);
  table.set("first", [route("first", "a.test", "/api")]);
  table.delete("first");
  table.set("third", [route("third", "a.test", "/api")]);
  assert.equal(answers(table, "a.test", "/api/x"), "third");
});

Deno.test("table: a claim keeps others away before it is committed, and leaves no trace where it is not", () => {
  const table = tableOf(route("one", "old.test"));
  const claim = table.claim("one", [route("one", "new.test")]);
  assert.equal(answers(table, "old.test", "/"), "one");
  assert.equal(answers(table, "new.test", "/"), undefined);
  for (const host of ["old.test", "new.test"]) {
    assert.throws(() => table.claim("two", [route("two", host)]), { code: "conflict" });
  }
  claim.commit();
  claim.release();
  assert.equal(answers(table, "new.test", "/"), "one");
  assert.equal(answers(table, "old.test", "/"), undefined);
  const given = table.claim("two", [route("two", "old.test")]);
  given.release();
  given.commit();
  assert.equal(answers(table, "old.test", "/"), undefined);
  table.set("three", [route("three", "old.test")]);
  table.claim("one", []).commit();
  assert.deepEqual(table.of("one"), []);
  assert.deepEqual(table.all(), [route("three", "old.test")]);
});
