import assert from "node:assert/strict";
import fc from "fast-check";
import { StandIns } from "../../egress/stand_ins.ts";
import { query } from "../../runtime/dns/fixture_test.ts";
import { answerOf, replyTo } from "./transparent.ts";

const AAAA = 28;
const A = 1;
const PTR = 12;

const asked = (name: string, type: number, standIns = new StandIns()) =>
  answerOf({ name, type, internet: true }, standIns);

Deno.test("look-ups of a transparent egress: every name has a stand-in, and a stand-in its name", () => {
  const standIns = new StandIns();
  const { addresses } = asked("api.corp.test", A, standIns);
  assert.equal(addresses?.length, 1);
  assert.deepEqual(asked("api.corp.test", A, standIns).addresses, addresses);
  const reverse = `${addresses![0].split(".").reverse().join(".")}.in-addr.arpa`;
  assert.deepEqual(asked(reverse, PTR, standIns), { names: ["api.corp.test"] });
  assert.deepEqual(asked("api.corp.test", AAAA), { addresses: [] }, "there is such a name");
  assert.deepEqual(asked("1.0.0.10.in-addr.arpa", PTR), { rcode: 3 });
});

Deno.test("look-ups of a transparent egress: what a rule would read as an address is no name", () => {
  for (const name of ["10.0.0.1", "0x7f.1", "2130706433", "a b", "", "x\\.y"]) {
    assert.deepEqual(asked(name, A), { rcode: 3 }, name);
  }
});

Deno.test("look-ups of a transparent egress: no datagram breaks the resolver", () => {
  const standIns = new StandIns();
  fc.assert(fc.property(fc.uint8Array({ maxLength: 600 }), (bytes) => {
    const reply = replyTo(bytes, standIns);
    assert.ok(reply === undefined || reply.length <= 512 || reply.length <= bytes.length);
  }));
  fc.assert(fc.property(fc.domain(), fc.integer({ min: 0, max: 65535 }), (name, type) => {
    assert.ok(replyTo(query(name, type), standIns));
  }));
});
