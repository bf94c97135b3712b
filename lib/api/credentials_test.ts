import assert from "node:assert/strict";
import { deliveriesOf, endpointPort, withoutSources } from "./credentials.ts";
import type { CredentialDelivery } from "./deploy_spec.ts";
import { validateDeploySpec } from "./deploy_spec_parse.ts";

const spec = (...sources: unknown[]) =>
  validateDeploySpec({ name: "app", image: "i:1", credentials: { sources } });
const delivered = (delivery: Partial<CredentialDelivery>) =>
  deliveriesOf(spec({ name: "c", deliver: [delivery] }))[0];

Deno.test("credentials of a spec: deliveries", () => {
  assert.deepEqual(delivered({ kind: "file", path: "/run/c" }), {
    ...{ kind: "file", source: "c", path: "/run/c", format: "json" },
  });
  const imds = { kind: "endpoint", provider: "aws-imds", wellKnown: "169.254.169.254" };
  assert.deepEqual(delivered(imds), { kind: "endpoint", source: "c", aws: true, wellKnown: true });
  assert.deepEqual(delivered({ kind: "endpoint", upstream: "https://api.example/v1/" }), {
    ...{ kind: "proxy", source: "c", upstream: "https://api.example/v1", header: "authorization" },
    bearer: true,
  });
  assert.deepEqual(delivered({ kind: "env", envVar: "TOKEN", valueKey: "token" }), {
    ...{ kind: "env", source: "c", envVar: "TOKEN", valueKey: "token" },
  });
});

Deno.test("credentials of a spec: what is wrong is told by its path", () => {
  const at = "credentials.sources[0].deliver[0]";
  const wrong: [Partial<CredentialDelivery>, string][] = [
    [{ kind: "mail" }, `${at}.kind: expected file, env or endpoint`],
    [{ kind: "file" }, `${at}.path: required`],
    [{ kind: "file", path: "run/c" }, `${at}.path: expected an absolute path`],
    [{ kind: "file", path: "/run/../etc/c" }, `${at}.path: expected an absolute path`],
    [{ kind: "file", path: "/c", format: "xml" }, `${at}.format: expected one of json`],
    [{ kind: "file", path: "/c", upstream: "http://x" }, `${at}.upstream: not for kind: file`],
    [{ kind: "env" }, `${at}.envVar: required`],
    [{ kind: "env", envVar: "A=B" }, `${at}.envVar: expected a variable`],
    [{ kind: "endpoint", provider: "gcp" }, `${at}.provider: expected aws-imds`],
    [{ kind: "endpoint", wellKnown: "169.254.169.254" }, `${at}.wellKnown: expected`],
    [
      { kind: "endpoint", provider: "aws-imds", wellKnown: "10.0.0.1" },
      `${at}.wellKnown: expected`,
    ],
    [{ kind: "endpoint", upstream: "file:///etc" }, `${at}.upstream: expected an http`],
    [{ kind: "endpoint", upstream: "http://a:b@x" }, `${at}.upstream: expected an http`],
    [
      { kind: "endpoint", upstream: "http://x", provider: "header:a b" },
      `${at}.provider: expected`,
    ],
  ];
  for (const [delivery, why] of wrong) {
    assert.throws(() => delivered(delivery), (error: Error) => {
      assert.ok(error.message.includes(why), `${error.message} has not ${why}`);
      return true;
    });
  }
});

Deno.test("credentials of a spec: nothing twice", () => {
  const file = { kind: "file", path: "/c" };
  const imds = { kind: "endpoint", provider: "aws-imds" };
  const both = (one: unknown, other: unknown) => () =>
    spec({ name: "a", deliver: [one] }, { name: "b", deliver: [other] });
  assert.throws(both(file, file), /sources\[1\]\.deliver\[0\]\.path: /);
  assert.throws(both(imds, imds), /sources\[0\]\.deliver\[0\] is one: it takes one account/);
  assert.throws(() => spec({ name: "a-b" }, { name: "A_B" }), /sources\[0\] has that name/);
  assert.throws(() => spec({ name: "../x" }), /sources\[0\]\.name: expected letters/);
  const mounted = { mounts: [{ source: "/srv", target: "/c" }] };
  const credentials = { sources: [{ name: "a", deliver: [file] }] };
  assert.throws(
    () => validateDeploySpec({ name: "app", image: "i", ...mounted, credentials }),
    /mounts\[0\] is mounted there already/,
  );
});

Deno.test("credentials of a spec: how they are made stays here", () => {
  const config = { value: "secret" };
  const sent = withoutSources(
    spec({
      name: "c",
      backend: "static",
      config,
      ttl: "1h",
      deliver: [{ kind: "file", path: "/c" }],
    }),
  );
  assert.deepEqual(sent.credentials, {
    sources: [{ name: "c", deliver: [{ kind: "file", path: "/c" }] }],
  });
  assert.ok(!JSON.stringify(sent).includes("secret"));
});

Deno.test("credentials of a spec: the endpoint's port is none of the workload's", () => {
  const ports = [{ container: 4170 }] as Parameters<typeof endpointPort>[0]["ports"];
  assert.equal(endpointPort({ ports: [] }), 4170);
  assert.equal(endpointPort({ ports, expose: [{ container: 4171, protocol: "tcp" }] }), 4172);
});
