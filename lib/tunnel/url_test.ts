import assert from "node:assert/strict";
import fc from "fast-check";
import { templateUrl, UrlFinder } from "./url.ts";

const parts = { serverHost: "relay.example", port: 8080, name: "web", protocol: "http" } as const;

Deno.test("tunnel URLs: the template's placeholders, and what stands for the host", () => {
  const rows: [string | undefined, Partial<Parameters<typeof templateUrl>[1]>, string][] = [
    [undefined, {}, "http://relay.example:8080"],
    [undefined, { port: 80 }, "http://relay.example"],
    [undefined, { protocol: "tcp", port: 80 }, "tcp://relay.example:80"],
    [undefined, { bindHost: "*" }, "http://relay.example:8080"],
    [undefined, { bindHost: "localhost" }, "http://relay.example:8080"],
    [undefined, { bindHost: "127.0.0.1" }, "http://relay.example:8080"],
    [undefined, { bindHost: "::" }, "http://relay.example:8080"],
    [undefined, { bindHost: "app.example" }, "http://app.example:8080"],
    [undefined, { serverHost: "2001:db8::1" }, "http://[2001:db8::1]:8080"],
    ["https://{name}.tunnels.example", {}, "https://web.tunnels.example"],
    ["https://{host}/{name}-{port}", {}, "https://relay.example/web-8080"],
    ["{protocol}://{host}:{port}", { port: 80 }, "http://relay.example:80"],
  ];
  for (const [template, more, url] of rows) {
    assert.equal(templateUrl(template, { ...parts, ...more }), url);
  }
});

Deno.test("tunnel URLs: the first one of a session's output, however it comes in", () => {
  const rows: [string, string | undefined][] = [
    ["Welcome!\r\nhttps://abc.lhr.example tunneled with tls\r\n", "https://abc.lhr.example"],
    ["Forwarding HTTP traffic from https://a.example.\n", "https://a.example"],
    [
      "\u001b[32mForwarding\u001b[0m \u001b[1mhttp://a.example:81\u001b[0m\n",
      "http://a.example:81",
    ],
    ["tcp://a.example:40123\n", "tcp://a.example:40123"],
    ["see (https://a.example/x) and https://b.example\n", "https://a.example/x"],
    ["https://a.example", undefined],
    ["https:// nothing here\n", undefined],
    ["ssh://a.example\n", undefined],
  ];
  for (const [text, url] of rows) {
    assert.equal(new UrlFinder().add(text), url, text);
    const slow = new UrlFinder();
    let found: string | undefined;
    for (const letter of text) found ??= slow.add(letter);
    assert.equal(found, url, `letter by letter: ${text}`);
  }
  const last = new UrlFinder();
  assert.equal(last.add("https://a.example"), undefined);
  assert.equal(last.end(), "https://a.example");
});

Deno.test("tunnel URLs: output without end is not kept", () => {
  const finder = new UrlFinder();
  for (let i = 0; i < 1100; i++) assert.equal(finder.add("x".repeat(1000)), undefined);
  assert.equal(finder.full, true);
  assert.equal(finder.add(" https://late.example \n"), undefined);
  fc.assert(
    fc.property(fc.string(), (text) => {
      const url = new UrlFinder().add(`${text}\n`);
      assert.ok(url === undefined || URL.canParse(url));
    }),
    { seed: 20_26, numRuns: 300 },
  );
});
