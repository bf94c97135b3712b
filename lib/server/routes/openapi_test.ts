import assert from "node:assert/strict";
import { Validator } from "@seriousme/openapi-schema-validator";
import { API_PREFIX, type Endpoint, ENDPOINTS } from "../../api/endpoints.ts";
import { start } from "../auth/testing.ts";
import type { ManagementDeps } from "../deps.ts";
import { startTestServer } from "../testing.ts";

type Json = Record<string, unknown>;

interface Document extends Json {
  paths: Record<string, Record<string, Json>>;
}

const PATH = `${API_PREFIX}/openapi.json`;

Deno.test("the description is valid, and has the paths of this server alone", async () => {
  await using plain = await startTestServer();
  const document: Document = await (await fetch(plain.base + PATH)).json();
  assert.deepEqual(await new Validator().validate(structuredClone(document)), { valid: true });
  assert.ok(document.paths[`${API_PREFIX}/deployments/{name}`].put);
  assert.ok(document.paths["/healthz"].get);
  assert.equal(document.paths[`${API_PREFIX}/tunnels`], undefined, "it has no tunnels");
  // No handler is called.
  const there = {} as never;
  const deps: Partial<ManagementDeps> = { tunnels: there, sessions: there, ingress: there };
  await using full = await startTestServer({ deps });
  const more: Document = await (await fetch(full.base + PATH)).json();
  const added = Object.keys(more.paths).filter((path) => !document.paths[path]);
  const expected = ["/ingress/tunnel", "/session", "/tunnels", "/tunnels/{id}"];
  assert.deepEqual(added.sort(), expected.map((path) => API_PREFIX + path));
});

Deno.test("every endpoint of the table is described with its query, body and answers", async () => {
  const text = await Deno.readTextFile(
    new URL("../../../docs/reference/openapi.json", import.meta.url),
  );
  const { paths }: Document = JSON.parse(text);
  for (const [name, entry] of Object.entries<Endpoint>(ENDPOINTS)) {
    const [method, path] = name.split(" ");
    const found = paths[API_PREFIX + path][method.toLowerCase()] as {
      parameters?: { name: string; in: string }[];
      requestBody?: { content: Json };
      responses: Record<string, { content?: Json }>;
    };
    const names = (where: string) =>
      (found.parameters ?? []).filter((one) => one.in === where).map((one) => one.name);
    assert.deepEqual(names("query"), Object.keys(entry.query ?? {}), name);
    assert.deepEqual(names("path"), [...path.matchAll(/\{(\w+)\}/g)].map(([, one]) => one), name);
    assert.deepEqual(
      Object.keys(found.requestBody?.content ?? {}),
      Object.keys(entry.body ?? {}),
      name,
    );
    const { default: problem, ...answers } = found.responses;
    assert.ok(problem, name);
    assert.deepEqual(
      Object.entries(answers).map(([status, { content = {} }]) => [status, Object.keys(content)]),
      Object.entries(entry.answers ?? {}).map(([status, types]) => [status, Object.keys(types)]),
      name,
    );
  }
});

Deno.test("it is for whoever may do anything; a query that nobody knows is refused", async () => {
  await using server = await start({ SVC_AUTH_TOKEN: "t".repeat(32) });
  assert.equal(await server.status("GET", PATH), 401);
  assert.equal(await server.status("GET", PATH, { token: "wrong" }), 401);
  const token = "t".repeat(32);
  assert.equal(await server.status("GET", PATH, { token }), 200);
  const answer = await server.call("GET", `${API_PREFIX}/deployments?nmae=x`, { token });
  assert.equal(answer.status, 400);
  assert.match((await answer.json()).detail, /unknown parameter "nmae"/);
});
