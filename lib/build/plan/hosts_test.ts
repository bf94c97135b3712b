import assert from "node:assert/strict";
import { parseHosts } from "./hosts.ts";

Deno.test("--add-host: names and addresses", () => {
  assert.deepEqual(
    parseHosts(["a:10.0.0.1", "b=::1", "c:::1", "d:[fe80::1]", "e.example:host-gateway"]),
    [
      { name: "a", address: "10.0.0.1" },
      { name: "b", address: "::1" },
      { name: "c", address: "::1" },
      { name: "d", address: "fe80::1" },
      { name: "e.example", address: "host-gateway" },
    ],
  );
  for (const line of ["a", "a:", ":10.0.0.1", "a:name", "a b:10.0.0.1", "a:10.0.0.1\nb"]) {
    assert.throws(() => parseHosts([line]), { code: "argument_invalid" }, line);
  }
});
