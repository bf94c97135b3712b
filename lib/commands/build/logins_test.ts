import assert from "node:assert/strict";
import { checkLogins, loginsHeader, readLogins } from "../../api/build_logins.ts";
import type { Io } from "../../base/terminal.ts";
import { imagesOf } from "../../client/named_images.ts";
import { loginsFor } from "./logins.ts";

Deno.test("logins: of the registries that a build names, over a connection that nobody reads", async () => {
  const home = await Deno.makeTempDir({ prefix: "svc-logins-" });
  try {
    const auth = (text: string) => ({ auth: btoa(text) });
    const auths = {
      "registry.example": auth("me:secret"),
      "base.example:5000": auth("b:1"),
      "other.example": auth("never:sent"),
      "https://index.docker.io/v1/": auth("hub:2"),
    };
    await Deno.writeTextFile(`${home}/config.json`, JSON.stringify({ auths }));
    let said = "";
    const io = {
      stderr: { write: (text: string) => Promise.resolve(void (said += text)) },
      signal: new AbortController().signal,
    } as unknown as Io;
    const input = {
      names: ["registry.example/app:v1", "team/app"],
      dockerfile: "FROM --platform=$BUILDPLATFORM base.example:5000/x AS a\nFROM a\nFROM $ARG\n",
      env: { DOCKER_CONFIG: home },
      io,
    };
    const logins = await loginsFor({ ...input, server: "http://127.0.0.1:5000" });
    assert.deepEqual(logins, {
      "base.example:5000": { username: "b", password: "1" },
      "docker.io": { username: "hub", password: "2" },
      "registry.example": { username: "me", password: "secret" },
    });
    assert.deepEqual(await loginsFor({ ...input, server: "https://far.example" }), logins);
    assert.equal(await loginsFor({ ...input, server: "http://far.example" }), undefined);
    assert.match(said, /login for .*registry\.example is not sent/);
    assert.doesNotMatch(said, /secret/);
    const missing = JSON.stringify({ credHelpers: { "registry.example": "of-nobody" } });
    await Deno.writeTextFile(`${home}/config.json`, missing);
    assert.equal(await loginsFor({ ...input, server: "https://far.example" }), undefined);
    assert.match(said, /WARNING: .*docker-credential-of-nobody/);
    const read = readLogins(loginsHeader(logins!));
    assert.deepEqual(Object.fromEntries(read!), logins);
  } finally {
    await Deno.remove(home, { recursive: true });
  }
});

Deno.test("logins: what is none is refused without being repeated", () => {
  assert.equal(readLogins(null), undefined);
  assert.equal(checkLogins(undefined), undefined);
  const bad = [null, [], "x", { h: {} }, { h: { username: "hush" } }, { h: { token: 1 } }];
  for (const value of bad) {
    assert.throws(() => checkLogins(value), (error: Error & { code?: string }) => {
      assert.equal(error.code, "argument_invalid");
      assert.doesNotMatch(error.message, /hush/);
      return true;
    });
  }
  assert.throws(() => readLogins("%%%"), { code: "argument_invalid" });
  assert.deepEqual(imagesOf("from a\nCOPY --from=b/c:1 x y\nRUN --mount=type=bind,from=d cmd\n"), [
    "a",
    "b/c:1",
    "d",
  ]);
});
