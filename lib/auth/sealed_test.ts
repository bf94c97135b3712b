import assert from "node:assert/strict";
import { Sealer } from "./sealed.ts";

const KEY = new Uint8Array(32).fill(7);

Deno.test("sealed: a record comes back from its own text, and from no other", () => {
  const sealer = new Sealer("svcx_", KEY);
  const record = { a: 1, b: ["é", null] };
  const text = sealer.seal(record);
  assert.match(text, /^svcx_[\w-]+\.[\w-]{43}$/);
  assert.deepEqual(sealer.open(text), record);
  const dot = text.indexOf(".");
  const others = [
    // A prefix of the same length, none, and one in front of it.
    `svcy_${text.slice(5)}`,
    text.slice(5),
    `x${text}`,
    // Another payload, another MAC, a part of one, and more of it.
    `svcx_${text.slice(6, dot)}${text.slice(dot)}`,
    text.slice(0, -2),
    `${text}AA`,
    `${text.slice(0, dot + 1)}${"A".repeat(43)}`,
    text.slice(0, dot),
    text.replace(".", ""),
    "svcx_.",
    "svcx_",
    "",
  ];
  for (const other of others) assert.equal(sealer.open(other), undefined, other);
  assert.equal(new Sealer("svcx_", new Uint8Array(32)).open(text), undefined);
  assert.equal(new Sealer("svcy_", KEY).open(`svcy_${text.slice(5)}`), undefined);
});
