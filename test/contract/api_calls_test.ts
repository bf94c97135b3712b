import assert from "node:assert/strict";
import { join, relative, resolve } from "node:path";
import { encodeAttachQuery } from "../../lib/api/attach.ts";
import { encodeExecQuery } from "../../lib/api/exec.ts";
import { encodeForwardQuery } from "../../lib/api/forward.ts";
import { parametersOf } from "../../lib/api/endpoints.ts";
import { createClient } from "../../lib/client/client.ts";
import { callProblem } from "../fixtures/api_call.ts";

const ROOT = resolve(import.meta.dirname!, "../..");

async function* sources(folder: string): AsyncGenerator<string> {
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    const path = join(folder, name);
    if (isDirectory) yield* sources(path);
    else if (name.endsWith(".ts") && !/_test\.ts$|testing\.ts$/.test(name)) yield path;
  }
}

Deno.test("calls: what the table does not know is not a call of the client's", async () => {
  const client = createClient({ server: "http://127.0.0.1:9" });
  const refused: (() => Promise<unknown>)[] = [
    // @ts-expect-error: no such method
    () => client.json("DELETE /deployments"),
    // @ts-expect-error: no such path
    () => client.json("GET /deployment"),
    // @ts-expect-error: the name is missing
    () => client.json("GET /deployments/{name}"),
    // @ts-expect-error: no such parameter
    () => client.json("POST /gc", { query: { dryrun: "true" } }),
    // @ts-expect-error: no such body
    () => client.json("POST /build/inputs", { body: "", contentType: "text/plain" }),
    // @ts-expect-error: another body
    () => client.json("POST /auth/keys", { json: { key: "ssh-ed25519 AAAA" } }),
    // @ts-expect-error: no WebSocket
    () => client.socket("/deployments", undefined, { onMessage() {}, onClose() {} }),
  ];
  for (const call of refused) await assert.rejects(call);
});

Deno.test("calls: queries that are made as texts have parameters of the table", async () => {
  const exec = encodeExecQuery({
    ...{ command: ["a"], shells: ["b"], env: ["A=1"], user: "u", workingDir: "/", instance: "0" },
    ...{ tty: true, size: { columns: 1, rows: 1 }, stdin: true, agent: true },
  });
  assert.deepEqual(
    [...new Set(exec.keys())].sort(),
    parametersOf("GET /deployments/{name}/exec").sort(),
  );
  const attach = encodeAttachQuery({ instance: "0", stdin: true, size: { columns: 1, rows: 1 } });
  assert.deepEqual([...attach.keys()], parametersOf("GET /deployments/{name}/attach"));
  const forward = encodeForwardQuery({ port: 1, protocol: "tcp" });
  assert.deepEqual([...forward.keys()], parametersOf("GET /deployments/{name}/forward"));
  const found = new Set<string>();
  for (const path of ["build.ts", "build/caches.ts"]) {
    const text = await Deno.readTextFile(join(ROOT, "lib/commands", path));
    for (const [, name] of text.matchAll(/\b(?:params|query)\.(?:append|set)\("(\w+)"/g)) {
      found.add(name);
    }
  }
  assert.deepEqual([...found].sort(), parametersOf("POST /build").sort());
});

Deno.test("calls: nothing but the client opens connections to a server's API", async () => {
  const found = new Set<string>();
  for (const folder of ["lib/client", "lib/commands"]) {
    for await (const path of sources(join(ROOT, folder))) {
      const text = await Deno.readTextFile(path);
      if (/(?<![\w#.])fetch\(|new WebSocket\(/.test(text)) found.add(relative(ROOT, path));
    }
  }
  assert.deepEqual([...found].sort(), [
    "lib/client/client.ts",
    // By the table's path.
    "lib/client/credentials/token_exchange.ts",
    // Asks /healthz before there is a client.
    "lib/client/doctor/way.ts",
    // Another API: the cluster's.
    "lib/client/kube/api.ts",
  ]);
});

Deno.test("calls: a request that the table does not know is found", () => {
  const problem = (method: string, path: string, type?: string) =>
    callProblem(
      new Request(`http://host/.svc/v1${path}`, {
        method,
        ...(type && { headers: { "content-type": type } }),
      }),
    );
  assert.equal(problem("GET", "/deployments/a%2Fb/logs?tail=1"), undefined);
  assert.equal(problem("POST", "/auth/keys", "application/json; charset=utf-8"), undefined);
  assert.match(problem("GET", "/deployment")!, /not in the table/);
  assert.match(problem("PATCH", "/deployments")!, /not in the table/);
  assert.match(problem("GET", "/info?x=1")!, /no parameter x/);
  assert.match(problem("POST", "/auth/keys", "text/plain")!, /takes no text\/plain/);
  assert.equal(callProblem(new Request("http://host/v2/")), undefined);
});
