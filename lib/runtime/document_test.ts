import assert from "node:assert/strict";
import { decodeDocument, encodeDocument, UNLIMITED } from "./document.ts";

Deno.test("numbers of 64 bits come back as they were, and texts are left alone", () => {
  const document = {
    rlimits: [{ type: "RLIMIT_CORE", soft: 0, hard: UNLIMITED }],
    env: ["A=x:9007199254740991", 'B=":18446744073709551615"'],
    negative: -9223372036854775808n,
    cpus: 0.5,
    large: 1e300,
    null: null,
  };
  const text = encodeDocument(document);
  assert.match(text, /"hard":18446744073709551615}/);
  assert.deepEqual(decodeDocument(text), document);
  assert.equal(encodeDocument(decodeDocument(text)), text);
});
