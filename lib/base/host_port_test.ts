import assert from "node:assert/strict";
import { isLoopbackHost, joinHostPort, splitHostPort } from "./host_port.ts";

Deno.test("host[:port]: names, addresses and ports, and nothing else", () => {
  const good: [string, ReturnType<typeof splitHostPort>][] = [
    ["relay.example", { host: "relay.example" }],
    ["relay.example:2222", { host: "relay.example", port: 2222 }],
    [":0", { port: 0 }],
    ["*:80", { host: "*", port: 80 }],
    ["[::1]:22", { host: "::1", port: 22 }],
    ["[::1]", { host: "::1" }],
  ];
  for (const [text, expected] of good) assert.deepEqual(splitHostPort(text), expected, text);
  for (const text of ["", "::1", "a:b", "a:70000", "a/b:1", "u@h", "a b", "h:", "ssh://h"]) {
    assert.equal(splitHostPort(text), undefined, text);
  }
  assert.equal(joinHostPort("::1", 22), "[::1]:22");
  assert.equal(joinHostPort("h", 22), "h:22");
});

Deno.test("host_port: which hosts are the loopback interface", () => {
  for (const host of ["localhost", "localhost:5000", "127.0.0.1:1", "127.9.9.9", "[::1]:5000"]) {
    assert.ok(isLoopbackHost(host), host);
  }
  for (const host of ["example.com", "127.0.0.1.example.com", "10.0.0.1:5000", "[::2]:1"]) {
    assert.ok(!isLoopbackHost(host), host);
  }
});
