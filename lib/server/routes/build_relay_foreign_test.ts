import assert from "node:assert/strict";
import { silent } from "../../base/log.ts";
import { serverDelegation } from "../delegation.ts";
import { startTestServer } from "../testing.ts";

Deno.test("relay: what answers and is not a builder is told as that, and blames no caller", async () => {
  const page = (status: number) =>
    new Response("<html>", { status, headers: { "content-type": "text/html" } });
  const answers = [
    () => page(200),
    () => page(501),
    () => new Response("no", { status: 404 }),
    () => Response.redirect("http://other.example/", 302),
  ];
  for (const answer of answers) {
    await using back = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, answer);
    const { port } = back.addr;
    const options = {
      builderUrl: `ws://127.0.0.1:${port}`,
      builderToken: undefined,
      builderAuto: false,
      builderImage: undefined,
      builderBaseImage: undefined,
    };
    await using front = await startTestServer({
      deps: { delegation: serverDelegation(options, { root: "/data", log: silent }) },
    });
    const response = await fetch(`${front.base}/.svc/v1/build`, {
      method: "POST",
      body: new Uint8Array(1),
    });
    assert.equal(response.status, 502);
    const { detail, help } = await response.json();
    assert.match(
      detail,
      new RegExp(`what answers at 127.0.0.1:${port} is not a builder: it answered`),
    );
    assert.match(help, /SVC_BUILDER_URL/);
  }
});
