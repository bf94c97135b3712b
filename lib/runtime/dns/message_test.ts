import assert from "node:assert/strict";
import fc from "fast-check";
import { query } from "./fixture_test.ts";
import { answers, Rcode, readQuery, RecordType, reverseAddress, writeReply } from "./message.ts";

const hex = (bytes: Uint8Array) => [...bytes].map((b) => b.toString(16).padStart(2, "0")).join(" ");

Deno.test("a question is read in lower case; its answer refers to it byte for byte", () => {
  const bytes = query("Web.Lan", RecordType.A, 0xabcd);
  const read = readQuery(bytes)!;
  assert.deepEqual(read.question, { name: "web.lan", type: 1, internet: true });
  assert.equal(
    hex(writeReply(bytes, read, { authoritative: true, addresses: ["10.4.0.2"] }, 512)),
    "ab cd 85 80 00 01 00 01 00 00 00 00 " +
      "03 57 65 62 03 4c 61 6e 00 00 01 00 01 " +
      "c0 0c 00 01 00 01 00 00 00 00 00 04 0a 04 00 02",
  );
  const failed = writeReply(bytes, read, { rcode: Rcode.nameError }, 512);
  assert.equal(hex(failed.subarray(0, 12)), "ab cd 81 83 00 01 00 00 00 00 00 00");
});

Deno.test("names for an address", () => {
  const bytes = query("2.0.4.10.in-addr.arpa", RecordType.PTR);
  const read = readQuery(bytes)!;
  assert.equal(reverseAddress(read.question!.name), "10.4.0.2");
  assert.equal(reverseAddress("0.4.10.in-addr.arpa"), undefined);
  const reply = writeReply(bytes, read, { names: ["web-0"] }, 512);
  assert.ok(hex(reply).endsWith("c0 0c 00 0c 00 01 00 00 00 00 00 07 05 77 65 62 2d 30 00"));
});

Deno.test("what does not fit is left out, and said to be", () => {
  const bytes = query("web");
  const addresses = Array.from({ length: 100 }, (_, n) => `10.4.0.${n + 2}`);
  const reply = writeReply(bytes, readQuery(bytes)!, { addresses }, 512);
  assert.ok(reply.length <= 512 && reply.length > 480);
  assert.equal(reply[2] & 2, 2);
  assert.equal(reply.length, 12 + (bytes.length - 12) + 16 * (reply[6] << 8 | reply[7]));
  assert.equal(writeReply(bytes, readQuery(bytes)!, { addresses }, 65535)[2] & 2, 0);
});

Deno.test("an answer, no header, too many questions, a compressed or cut name", () => {
  const bytes = query("web");
  assert.equal(readQuery(bytes.subarray(0, 11)), undefined);
  assert.equal(readQuery(bytes.with(2, 0x81)), undefined);
  for (const broken of [bytes.with(5, 2), bytes.with(12, 0xc0), bytes.subarray(0, 18)]) {
    assert.equal(readQuery(broken)!.question, undefined);
    const reply = writeReply(broken, readQuery(broken)!, { rcode: Rcode.formatError }, 512);
    assert.equal(hex(reply), "00 07 81 81 00 00 00 00 00 00 00 00");
  }
  const long = query(`${"a".repeat(60)}.`.repeat(4) + "b".repeat(20));
  assert.equal(readQuery(long)!.question, undefined);
  assert.equal(readQuery(query("a.b\\.c"))!.question!.name, "a.b\\.c");
});

Deno.test("only an answer to the question that was asked is taken", () => {
  const asked = query("web");
  const read = readQuery(asked)!;
  const good = writeReply(asked, read, { addresses: ["10.4.0.2"] }, 512);
  assert.ok(answers(good, asked, read));
  assert.ok(!answers(asked, asked, read), "a query");
  assert.ok(!answers(good.with(1, 8), asked, read), "another id");
  assert.ok(!answers(good.with(13, 88), asked, read), "another name");
  assert.ok(!answers(good.subarray(0, 14), asked, read), "cut");
});

Deno.test("any bytes are read without a throw, and answered within the limit", () => {
  const near = fc.tuple(
    fc.constantFrom("web", "a.b.c", ""),
    fc.array(fc.tuple(fc.nat(40), fc.nat(255))),
  )
    .map(([name, changes]) =>
      changes.reduce(
        (bytes, [at, value]) => at < bytes.length ? bytes.with(at, value) : bytes,
        query(name),
      )
    );
  fc.assert(
    fc.property(fc.oneof(fc.uint8Array({ maxLength: 600 }), near), fc.nat(40), (bytes, count) => {
      const read = readQuery(bytes);
      if (!read) return;
      assert.ok(read.end <= bytes.length);
      const addresses = Array.from({ length: count }, () => "10.4.0.2");
      const reply = writeReply(bytes, read, { addresses }, 512);
      assert.ok(reply.length <= 512);
      assert.equal(answers(reply, bytes, read), read.question !== undefined);
    }),
    { numRuns: 2000 },
  );
});
