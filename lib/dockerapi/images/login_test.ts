import assert from "node:assert/strict";
import { registryAuth, registryConfig } from "./login.ts";

const encode = (value: unknown) => btoa(JSON.stringify(value));

Deno.test("logins of docker's clients: every form that they send", () => {
  const plain = { username: "u", password: "p?>~" };
  assert.deepEqual(registryAuth(encode(plain)), plain);
  const url = encode(plain).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
  assert.deepEqual(registryAuth(url), plain);
  assert.deepEqual(registryAuth(encode({ identitytoken: "t" })), { identityToken: "t" });
  assert.deepEqual(registryAuth(encode({ registrytoken: "t" })), { token: "t" });
  assert.deepEqual(registryAuth(encode({ auth: btoa("u:p:q") })), {
    username: "u",
    password: "p:q",
  });
  assert.equal(registryAuth(encode({})), undefined);
  assert.equal(registryAuth(undefined), undefined);
});

Deno.test("logins of docker's clients: those of a build, by host", () => {
  const logins = registryConfig(encode({
    "https://index.docker.io/v1/": { username: "u", password: "p" },
    "localhost:5000": { username: "v", password: "q" },
    "none.example": {},
  }));
  assert.deepEqual([...logins.keys()], ["docker.io", "localhost:5000"]);
});

Deno.test("logins of docker's clients: an error does not quote them", () => {
  assert.throws(() => registryAuth(btoa('{"password": "secret"')), (error: Error) => {
    assert.doesNotMatch(error.message, /secret/);
    return /malformed/.test(error.message);
  });
});
