import assert from "node:assert/strict";
import { MOST_PARTS, pieces } from "./compose.ts";
import { PART } from "./upload_state.ts";

const segments = (...parts: number[]) => parts.map((n, i) => ({ key: `s${i}`, size: n * PART }));

function check(found: ReturnType<typeof pieces>, given: ReturnType<typeof segments>) {
  let at = 0;
  for (const segment of given) {
    for (let offset = 0; offset < segment.size; at++) {
      assert.deepEqual([found[at].key, found[at].start], [segment.key, offset]);
      offset = found[at].end + 1;
      assert.ok(offset <= segment.size);
    }
  }
  assert.equal(at, found.length);
}

Deno.test("pieces: all of one size, as large as the segments allow", () => {
  for (
    const [parts, size] of [[[1], 1], [[16], 8], [[8, 4], 4], [[6, 9], 3], [[7, 16], 1], [
      [7],
      7,
    ]] as [number[], number][]
  ) {
    const given = segments(...parts);
    const found = pieces(given);
    check(found, given);
    for (const piece of found) assert.equal(piece.end + 1 - piece.start, size * PART);
  }
});

Deno.test("pieces: never more than an object may have", () => {
  const given = segments(1, 400_001);
  const found = pieces(given);
  check(found, given);
  assert.ok(found.length < MOST_PARTS);
  for (const piece of found) assert.ok(piece.end + 1 - piece.start <= 5 * 1024 ** 3);
});
