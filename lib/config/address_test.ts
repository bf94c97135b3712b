import assert from "node:assert/strict";
import { SvcError } from "../base/errors.ts";
import { formatAddress, parseAddress } from "./address.ts";

Deno.test("address: reads and writes", () => {
  const rows: [string, { hostname?: string; port: number }][] = [
    [":5000", { port: 5000 }],
    ["127.0.0.1:0", { hostname: "127.0.0.1", port: 0 }],
    ["[::1]:80", { hostname: "::1", port: 80 }],
    ["localhost:65535", { hostname: "localhost", port: 65535 }],
  ];
  for (const [text, address] of rows) {
    assert.deepEqual(parseAddress(text, "--addr"), address);
    assert.equal(formatAddress(address), text);
  }
});

Deno.test("address: what is none is refused with its source", () => {
  for (const text of ["", ":", "5000", "a:b", ":65536", "::1:1", "http://a:1", "a:1/b"]) {
    assert.throws(
      () => parseAddress(text, "SVC_ADDR"),
      (error) =>
        error instanceof SvcError && error.code === "config_invalid" &&
        error.message.startsWith("Cannot read SVC_ADDR: "),
      text,
    );
  }
});
