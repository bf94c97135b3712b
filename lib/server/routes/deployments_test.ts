import assert from "node:assert/strict";
import { loginsHeader } from "../../api/build_logins.ts";
import { validateDeploySpec } from "../../api/deploy_spec_parse.ts";
import type { ApplyEvent, DeploymentStatus } from "../../api/deployment.ts";
import type { ApplyOptions, DeployBackend } from "../../deploy/backend.ts";
import { collect, jsonLines, startTestServer, STATUS } from "../testing.ts";

const API = "/.svc/v1/deployments";
const SPEC = validateDeploySpec({ name: "web", image: "app:v1", env: { A: "1" } });

Deno.test("deployments: list, status, power, delete", async () => {
  const calls: string[] = [];
  const backend: Partial<DeployBackend> = {
    list: () => Promise.resolve([{ ...STATUS, name: "z" }, { ...STATUS, name: "a" }]),
    status: (name) => Promise.resolve(name === "web" ? STATUS : undefined),
    power: (name, action) => {
      calls.push(`${action} ${name}`);
      return Promise.resolve(STATUS);
    },
    spec: (name) => Promise.resolve(name === "web" ? SPEC : undefined),
    delete: (name) => {
      calls.push(`delete ${name}`);
      return Promise.resolve(name === "web");
    },
  };
  await using server = await startTestServer({ backend });
  const call = async (method: string, path: string) => {
    const response = await fetch(server.base + path, { method });
    const text = await response.text();
    return { status: response.status, body: text === "" ? undefined : JSON.parse(text) };
  };
  const list = await call("GET", API);
  assert.deepEqual(list.body.map((d: DeploymentStatus) => d.name), ["a", "z"]);
  assert.deepEqual((await call("GET", `${API}/web`)).body, STATUS);
  assert.deepEqual((await call("GET", `${API}/web/spec`)).body, SPEC);
  assert.equal((await call("GET", `${API}/wbe/spec`)).body.code, "not_found");
  const missing = await call("GET", `${API}/wbe`);
  assert.equal(missing.status, 404);
  assert.equal(missing.body.code, "not_found");
  for (const action of ["start", "stop", "restart"]) {
    assert.equal((await call("POST", `${API}/web/${action}`)).status, 200);
  }
  assert.equal((await call("DELETE", `${API}/web?wait=true`)).status, 204);
  assert.equal((await call("DELETE", `${API}/web?wait=false`)).status, 202);
  assert.equal((await call("DELETE", `${API}/wbe`)).status, 404);
  assert.equal((await call("DELETE", `${API}/web?wiat=1`)).status, 400);
  assert.deepEqual(calls, [
    "start web",
    "stop web",
    "restart web",
    "delete web",
    "delete web",
    "delete wbe",
  ]);
});

Deno.test("deployments: apply validates, stamps the caller, answers as it is asked to", async () => {
  let subject: string | undefined;
  let given: ApplyOptions["logins"];
  await using server = await startTestServer({
    backend: {
      apply: (spec, _attachments, { onProgress, logins } = {}) => {
        subject = spec.origin?.subject;
        given = logins;
        onProgress?.("pulling app:v1");
        return Promise.resolve({ action: "created", deployment: STATUS });
      },
    },
  });
  const put = (spec: unknown, headers: Record<string, string> = {}, name = "web") =>
    fetch(`${server.base}${API}/${name}`, {
      method: "PUT",
      headers,
      body: typeof spec === "string" ? spec : JSON.stringify(spec),
    });
  const plain = await put({ name: "web", image: "app:v1", origin: { subject: "forged" } });
  assert.equal(plain.status, 201);
  assert.equal((await plain.json()).action, "created");
  assert.equal(subject, "anonymous");
  const streamed = await put({ name: "web", image: "app:v1" }, { accept: "application/x-ndjson" });
  assert.deepEqual(await collect(jsonLines<ApplyEvent>(streamed)), [
    { type: "progress", message: "pulling app:v1" },
    { type: "result", result: { action: "created", deployment: STATUS } },
  ]);
  assert.equal(given, undefined);
  const login = { username: "me", password: "hush" };
  const withLogin = await put({ name: "web", image: "app:v1" }, {
    "x-svc-registry-logins": loginsHeader({ "registry.test": login }),
  });
  assert.equal(withLogin.status, 201);
  assert.doesNotMatch(await withLogin.text(), /hush/);
  assert.deepEqual([...given!], [["registry.test", login]]);
  const yaml = await put("name: web\nimage: app:v1\n", { "content-type": "application/yaml" });
  assert.equal(yaml.status, 201);
  await yaml.body?.cancel();
  const post = (body: string) =>
    fetch(`${server.base}${API}?source=app.yaml`, {
      method: "POST",
      headers: { "content-type": "application/yaml" },
      body,
    });
  const named = await post("name: web\nimage: app:v1\n");
  assert.equal(named.status, 201);
  await named.body?.cancel();
  const malformed = await post("name: web\n image: x");
  assert.equal(malformed.status, 400);
  assert.match((await malformed.json()).detail, /Cannot read app\.yaml: line 1, column 7/);
  const refusals: [unknown, Record<string, string>, RegExp][] = [
    [{ name: "web", image: "app:v1", imgae: "x" }, {}, /image/],
    [{ name: "other", image: "app:v1" }, {}, /the path "web"/],
    ["{", {}, /Cannot read deployment spec/],
    [{ name: "web", image: "app:v1" }, { "x-svc-registry-logins": "%%" }, /registry logins/],
    ["name: web\n image: x", { "content-type": "application/yaml" }, /line 1, column 7/],
    [" ".repeat(4 * 1024 * 1024 + 1), {}, /more than/],
  ];
  for (const [spec, headers, message] of refusals) {
    const response = await put(spec, { accept: "application/x-ndjson", ...headers });
    assert(response.status === 400 || response.status === 413, String(response.status));
    assert.match((await response.json()).detail, message);
  }
});
