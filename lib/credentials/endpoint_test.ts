import assert from "node:assert/strict";
import { SvcError } from "../base/errors.ts";
import { credentialEndpoint, type EndpointDelivery, endpointVariables } from "./endpoint.ts";

const AWS = { accessKeyId: "AK", secretAccessKey: "SK", sessionToken: "ST" };
const ENDS = new Date("2030-01-01T00:00:00Z");
const plain: EndpointDelivery = { kind: "endpoint", source: "plain", aws: false, wellKnown: false };
const aws: EndpointDelivery = { kind: "endpoint", source: "aws", aws: true, wellKnown: true };

const handler = credentialEndpoint({
  deliveries: [plain, aws],
  get: (name) =>
    name === "aws"
      ? Promise.resolve({ values: AWS, expiration: ENDS })
      : Promise.resolve({ values: { token: "t" } }),
});

const ask = (
  path: string,
  { host = "127.0.0.1:4170", ...init }: RequestInit & { host?: string } = {},
) =>
  handler(
    new Request(`http://127.0.0.1:4170${path}`, {
      ...init,
      headers: { host, ...init.headers as Record<string, string> },
    }),
  );

Deno.test("endpoint: values as JSON, of declared names alone", async () => {
  const answer = await ask("/credentials/plain");
  assert.deepEqual(await answer.json(), { values: { token: "t" } });
  assert.equal(answer.headers.get("cache-control"), "no-store");
  assert.deepEqual(await (await ask("/credentials/aws")).json(), {
    values: AWS,
    expiration: ENDS.toISOString(),
  });
  for (
    const path of ["/", "/credentials/", "/credentials/other", "/aws/plain", "/credentials/../x"]
  ) {
    assert.equal((await ask(path)).status, 404, path);
  }
  assert.equal((await ask("/credentials/plain", { method: "POST" })).status, 405);
});

Deno.test("endpoint: pages and proxies are refused", async () => {
  for (const name of ["origin", "x-forwarded-for"]) {
    const headers = { [name]: "http://x" };
    assert.equal((await ask("/credentials/plain", { headers })).status, 403, name);
  }
  assert.equal((await ask("/credentials/plain", { host: "rebound.example" })).status, 403);
});

Deno.test("endpoint: the shapes of AWS", async () => {
  const keys = {
    AccessKeyId: "AK",
    SecretAccessKey: "SK",
    Token: "ST",
    Expiration: "2030-01-01T00:00:00Z",
  };
  assert.deepEqual(await (await ask("/aws/aws")).json(), keys);
  const roles = "/latest/meta-data/iam/security-credentials/";
  assert.equal((await ask(roles)).status, 401, "version 1 is not served");
  const ttl = "x-aws-ec2-metadata-token-ttl-seconds";
  const made = await ask("/latest/api/token", { method: "PUT", headers: { [ttl]: "60" } });
  const token = await made.text();
  const headers = { "x-aws-ec2-metadata-token": token };
  assert.equal(await (await ask(roles, { headers })).text(), "aws");
  const { LastUpdated, ...rest } = await (await ask(`${roles}aws`, { headers })).json();
  assert.ok(LastUpdated);
  assert.deepEqual(rest, { Code: "Success", Type: "AWS-HMAC", ...keys });
  assert.equal((await ask(`${roles}plain`, { headers })).status, 404);
  for (const [method, seconds] of [["GET", "60"], ["PUT", "0"], ["PUT", "99999"], ["PUT", "x"]]) {
    const refused = await ask("/latest/api/token", { method, headers: { [ttl]: seconds } });
    assert.ok(refused.status >= 400, `${method} ${seconds}`);
  }
  const forged = { "x-aws-ec2-metadata-token": `${Date.now() + 1e6}.${token.split(".")[1]}` };
  assert.equal((await ask(roles, { headers: forged })).status, 401);
});

Deno.test("endpoint: an error is told without anything of another's words", async () => {
  const failing = (error: Error) =>
    credentialEndpoint({ deliveries: [plain], get: () => Promise.reject(error) })(
      new Request("http://127.0.0.1/credentials/plain", { headers: { host: "127.0.0.1" } }),
    );
  const known = await failing(new SvcError("upstream_failed", "the caller is away"));
  assert.deepEqual([known.status, await known.json()], [503, { message: "the caller is away" }]);
  const other = await failing(new Error("secret"));
  assert.deepEqual([other.status, await other.json()], [500, {
    message: "the credential cannot be had",
  }]);
});

Deno.test("endpoint: the variables that tell of it", () => {
  assert.deepEqual(endpointVariables([{ ...plain, source: "my-api", envVar: "API" }, aws], 4170), {
    SVC_CREDENTIALS_URL: "http://127.0.0.1:4170/credentials",
    SVC_CREDENTIAL_MY_API_URL: "http://127.0.0.1:4170/credentials/my-api",
    API: "http://127.0.0.1:4170/credentials/my-api",
    SVC_CREDENTIAL_AWS_URL: "http://127.0.0.1:4170/credentials/aws",
    AWS_CONTAINER_CREDENTIALS_FULL_URI: "http://127.0.0.1:4170/aws/aws",
    AWS_EC2_METADATA_SERVICE_ENDPOINT: "http://127.0.0.1:4170",
  });
  assert.deepEqual(endpointVariables([], 4170), {});
  const upstream = { kind: "proxy", header: "authorization", bearer: true } as const;
  const upstreams = [{ ...upstream, source: "my-api", upstream: "https://a.test", envVar: "API" }];
  assert.deepEqual(endpointVariables([], 4170, upstreams), {
    SVC_CREDENTIAL_MY_API_UPSTREAM_URL: "http://127.0.0.1:4170/upstream/my-api",
    API: "http://127.0.0.1:4170/upstream/my-api",
  });
});
