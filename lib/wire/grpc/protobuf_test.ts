import assert from "node:assert/strict";
import { SvcError } from "../../base/errors.ts";
import { decodeMessage, encodeMessage, type Schema } from "./protobuf.ts";

const INNER: Schema = { name: { no: 1, type: "string" } };
const SCHEMA: Schema = {
  text: { no: 1, type: "string" },
  number: { no: 2, type: "uint" },
  flag: { no: 3, type: "bool" },
  raw: { no: 4, type: "bytes" },
  labels: { no: 5, type: "labels" },
  inner: { no: 6, type: INNER },
  list: { no: 7, type: "string", repeated: true },
  far: { no: 2000, type: INNER, repeated: true },
};

Deno.test("protobuf: bytes as the specification's encoding has them", () => {
  assert.deepEqual(
    [...encodeMessage(SCHEMA, { number: 150, text: "testing", flag: true })],
    [0x10, 0x96, 0x01, 0x0a, 7, ...new TextEncoder().encode("testing"), 0x18, 1],
  );
  assert.deepEqual([...encodeMessage(SCHEMA, { labels: { a: "b" } })], [
    0x2a,
    6,
    0x0a,
    1,
    97,
    0x12,
    1,
    98,
  ]);
});

Deno.test("protobuf: what was written is read again, absent fields as zero", () => {
  const message = {
    text: "ö",
    number: 2 ** 40 + 1,
    flag: true,
    raw: new Uint8Array([1, 2]),
    labels: { a: "b", c: "" },
    inner: { name: "x" },
    list: ["", "y"],
    far: [{ name: "1" }, { name: "2" }],
  };
  assert.deepEqual(decodeMessage(SCHEMA, encodeMessage(SCHEMA, message)), message);
  assert.deepEqual(
    decodeMessage(INNER, encodeMessage(SCHEMA, { text: "a", number: 5, far: [{}] })),
    {
      name: "a",
    },
  );
  assert.deepEqual(decodeMessage(SCHEMA, new Uint8Array()), {
    text: "",
    number: 0,
    flag: false,
    raw: new Uint8Array(),
    labels: {},
    inner: undefined,
    list: [],
    far: [],
  });
});

Deno.test("protobuf: rubbish is refused", () => {
  const rubbish = [[0x0a], [0x0a, 5, 1], [0x10], [0x12, 1, 0], [0x0b], Array(11).fill(0xff)];
  for (const bytes of rubbish) {
    assert.throws(
      () => decodeMessage(SCHEMA, Uint8Array.from(bytes)),
      (error) => error instanceof SvcError && error.code === "upstream_failed",
      String(bytes),
    );
  }
});
