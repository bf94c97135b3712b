import assert from "node:assert/strict";
import fc from "fast-check";
import { runs } from "../../test/fixtures/property.ts";
import { heldRange, parseContentRange, parseRange } from "./range.ts";

Deno.test("parseRange reads one range and leaves the rest to a whole answer", () => {
  const cases: [string | null, { start: number; end: number } | undefined][] = [
    ["bytes=0-0", { start: 0, end: 0 }],
    ["bytes=2-", { start: 2, end: 9 }],
    ["bytes=2-99", { start: 2, end: 9 }],
    ["Bytes= 2-3 ", { start: 2, end: 3 }],
    ["bytes=-3", { start: 7, end: 9 }],
    ["bytes=-99", { start: 0, end: 9 }],
    [null, undefined],
    ["", undefined],
    ["bytes=-", undefined],
    ["bytes=5-4", undefined],
    ["bytes=0-1,3-4", undefined],
    ["items=0-1", undefined],
  ];
  for (const [header, expected] of cases) {
    assert.deepEqual(parseRange(header, 10), expected, String(header));
  }
  for (const header of ["bytes=10-", "bytes=10-12", "bytes=-0", "bytes=99999999999999999999-"]) {
    assert.throws(() => parseRange(header, 10), { code: "range_invalid" }, header);
  }
  assert.throws(() => parseRange("bytes=-1", 0), { code: "range_invalid" });
});

Deno.test("a range that is served lies within the blob, whatever was asked", () => {
  const part = fc.oneof(fc.nat(), fc.bigInt({ min: 0n }).map(String), fc.constant(""));
  fc.assert(
    fc.property(part, part, fc.nat({ max: 1000 }), (first, last, size) => {
      try {
        const range = parseRange(`bytes=${first}-${last}`, size);
        if (range) assert.ok(0 <= range.start && range.start <= range.end && range.end < size);
      } catch (error) {
        assert.equal((error as { code?: string }).code, "range_invalid");
      }
    }),
    runs(300),
  );
});

/** Texts like ranges, and others. */
const header = fc.oneof(
  fc.string({ maxLength: 40 }),
  fc.array(
    fc.constantFrom(
      "bytes",
      "Bytes",
      "=",
      " ",
      "-",
      "/",
      "*",
      ",",
      "0",
      "9",
      "18446744073709551616",
      "\t",
    ),
    { maxLength: 10 },
  ).map((parts) => parts.join("")),
);

Deno.test("no header makes the parsers fail in another way, or leave what there is", () => {
  fc.assert(
    fc.property(header, fc.nat({ max: 20 }), (text, size) => {
      try {
        const range = parseRange(text, size);
        if (range) assert.ok(0 <= range.start && range.start <= range.end && range.end < size);
      } catch (error) {
        assert.equal((error as { code?: string }).code, "range_invalid");
      }
      try {
        const chunk = parseContentRange(text);
        assert.ok(chunk && 0 <= chunk.start && chunk.start <= chunk.end);
        assert.ok(Number.isSafeInteger(chunk.end));
      } catch (error) {
        assert.equal((error as { code?: string }).code, "blob_upload_invalid");
      }
    }),
    runs(1000),
  );
});

Deno.test("parseContentRange takes the specification's form and HTTP's", () => {
  assert.equal(parseContentRange(null), undefined);
  for (const header of ["3-9", "bytes 3-9/10", "bytes=3-9", " bytes 3-9/* "]) {
    assert.deepEqual(parseContentRange(header), { start: 3, end: 9 }, header);
  }
  for (const header of ["", "3", "-9", "3-", "9-3", "a-b", "0-99999999999999999", "0-1-2"]) {
    assert.throws(() => parseContentRange(header), { code: "blob_upload_invalid" }, header);
  }
  assert.equal(heldRange(0), "0-0");
  assert.equal(heldRange(10), "0-9");
});
