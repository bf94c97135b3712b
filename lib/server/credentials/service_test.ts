/** What the service refuses before anything is made. */
import assert from "node:assert/strict";
import { validateDeploySpec } from "../../api/deploy_spec_parse.ts";
import { silent } from "../../base/log.ts";
import { WorkloadNamespaces } from "../../deploy/namespaces.ts";
import { requireAbilities } from "../../deploy/services.ts";
import type { SessionCaller } from "../../wire/attached/callers.ts";
import { acceptSpec } from "../accept_spec.ts";
import { CredentialFiles } from "./files.ts";
import { CredentialService } from "./service.ts";

const caller: SessionCaller = {
  open: () => Promise.reject(new Error("nobody is asked")),
  ended: new AbortController().signal,
  fail() {},
};

const service = (session: boolean) =>
  new CredentialService({
    files: new CredentialFiles("/nonexistent/credentials"),
    callers: { of: () => session ? caller : undefined },
    namespaces: new WorkloadNamespaces(() => {}),
    log: silent,
  });

const spec = (deliver: Record<string, string>, more: Record<string, unknown> = {}) =>
  validateDeploySpec({
    ...{ name: "web", image: "app:v1", ...more },
    credentials: { sources: [{ name: "c", deliver: [deliver] }] },
  });

Deno.test("credentials: what is not delivered is refused by name", () => {
  const endpoint = { kind: "endpoint" };
  const refused: [ReturnType<typeof spec>, RegExp][] = [
    [
      spec({ kind: "env", envVar: "TOKEN" }, { env: { TOKEN: "x" } }),
      /the spec sets TOKEN too, which is to have c/,
    ],
    [
      spec({ ...endpoint, upstream: "https://api.example" }, { networks: ["none"] }),
      /network none has none of its own/,
    ],
    [spec(endpoint, { networks: ["host"] }), /network host has none of its own/],
    [spec(endpoint, { networks: ["none"] }), /network none has none of its own/],
  ];
  for (const [one, message] of refused) {
    assert.throws(() => service(true).claim(one), { code: "unsupported", message });
  }
});

Deno.test("credentials: a deployment without a session has none", () => {
  assert.throws(() => service(false).claim(spec({ kind: "file", path: "/c" })), {
    code: "unsupported",
    message: /nobody would stay to make them/,
    help: /--session/,
  });
});

Deno.test("credentials: an engine that runs nothing beside a workload is refused by name", async () => {
  const { beside } = await service(true).claim(spec({ kind: "endpoint" })).contribute!();
  assert.equal(beside, "an endpoint of credentials (c)");
  assert.throws(() => requireAbilities({ name: "other", caps: {} }, { beside }), {
    code: "unsupported",
    message: /with an endpoint of credentials \(c\): the other backend lets nothing/,
  });
  requireAbilities({ name: "other", caps: { namespaces: true } }, { beside });
});

Deno.test("credentials: how they are made is refused before anything is written", () => {
  const config = { value: "secret" };
  const sources = [{ name: "c", backend: "static", config }];
  const one = validateDeploySpec({ name: "web", image: "app:v1", credentials: { sources } });
  assert.throws(() => acceptSpec(one, { subject: "me", scopes: [] }), (error: Error) => {
    assert.match(error.message, /sources\[0\] says how it is made/);
    assert.ok(!error.message.includes("secret"));
    return true;
  });
});

Deno.test("credentials: variables are for an engine that keeps none", () => {
  const secretEnv = "/run/svc/x/credentials/web/variables.json";
  assert.throws(() => requireAbilities({ name: "dockerhost", caps: {} }, { secretEnv }), {
    code: "unsupported",
    message: /kind: env: the dockerhost backend keeps variables in the container's settings/,
    help: /kind: file/,
  });
  requireAbilities({ name: "bare", caps: { secretEnv: true } }, { secretEnv });
});
