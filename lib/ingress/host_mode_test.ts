import assert from "node:assert/strict";
import type { HostMode } from "../api/tunnel.ts";
import { aimBefore, aimOf, wishOf } from "./host_mode.ts";
import { world } from "./testing.ts";

const ONE = ["app.example"];
const TWO = ["app.example", "api.example"];
const WILD = ["*.apps.example"];

Deno.test("host modes: what each comes to, by what is declared, asked for and public", () => {
  type Row = [HostMode, string | undefined, string[], publicHost: string, expected: unknown];
  const rows: Row[] = [
    ["auto", undefined, ONE, "app.example", { hostMode: "passthrough" }],
    ["auto", undefined, TWO, "api.example", { hostMode: "passthrough" }],
    ["auto", undefined, WILD, "x.apps.example", { hostMode: "passthrough" }],
    ["auto", undefined, ONE, "relay.example", { hostMode: "alias", host: "app.example" }],
    [
      "auto",
      undefined,
      TWO,
      "relay.example",
      /its public host is relay\.example, and declared are app/,
    ],
    ["auto", undefined, WILD, "relay.example", /its public host is relay\.example/],
    ["auto", undefined, [], "relay.example", /no deployment declares one/],
    ["auto", "api.example", TWO, "relay.example", { hostMode: "alias", host: "api.example" }],
    ["auto", "api.example", TWO, "api.example", { hostMode: "passthrough" }],
    ["auto", "api.example", TWO, "app.example", { hostMode: "alias", host: "api.example" }],
    ["auto", "X.Apps.example", WILD, "relay.example", {
      hostMode: "alias",
      host: "x.apps.example",
    }],
    ["passthrough", undefined, ONE, "relay.example", {
      hostMode: "passthrough",
      host: "app.example",
    }],
    ["passthrough", undefined, TWO, "relay.example", { hostMode: "passthrough" }],
    ["passthrough", undefined, [], "relay.example", { hostMode: "passthrough" }],
    ["passthrough", "api.example", TWO, "", { hostMode: "passthrough", host: "api.example" }],
    ["alias", undefined, ONE, "relay.example", { hostMode: "alias", host: "app.example" }],
    [
      "alias",
      undefined,
      TWO,
      "relay.example",
      /alias needs one host, and declared are app.example, api/,
    ],
    ["alias", undefined, WILD, "relay.example", /alias needs one host/],
    ["rewrite", "app.example", TWO, "relay.example", { hostMode: "rewrite", host: "app.example" }],
    [
      "rewrite",
      undefined,
      [],
      "relay.example",
      /rewrite needs one host, and no deployment declares one/,
    ],
    [
      "alias",
      "other.example",
      TWO,
      "relay.example",
      /no deployment declares the host other\.example/,
    ],
    ["alias", "a.b.apps.example", WILD, "relay.example", /no deployment declares the host a\.b/],
    ["alias", "not a host", ONE, "relay.example", /"not a host" is not a host name/],
  ];
  for (const [mode, host, declared, publicHost, expected] of rows) {
    const decide = () => {
      const wish = wishOf(mode, host, declared);
      return aimBefore(wish, declared) ?? aimOf(wish, declared, publicHost);
    };
    if (expected instanceof RegExp) assert.throws(decide, expected);
    else assert.deepEqual(decide(), expected, `${mode} ${host} ${declared} ${publicHost}`);
  }
});

for (const rewrite of [false, true]) {
  Deno.test(`host modes: ${rewrite ? "rewrite" : "alias"}: any host is the declared one; what the workload sees`, async () => {
    let head = "";
    await using there = world(async (talker) => {
      head = (await talker.message())!;
      await talker.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    });
    const answer = await there.ask(
      "GET /x HTTP/1.1\r\nHost: relay.example:8443\r\nConnection: close\r\n\r\n",
      { scheme: "https", as: { host: "a.test", rewrite } },
    );
    assert.match(answer, /^HTTP\/1\.1 200 OK/);
    assert.match(head, rewrite ? /\r\nHost: a\.test\r\n/ : /\r\nHost: relay\.example:8443\r\n/);
    assert.match(head, /\r\nX-Forwarded-Host: relay\.example:8443\r\n/);
    assert.match(head, /\r\nX-Forwarded-Proto: https\r\n/);
  });
}
