import assert from "node:assert/strict";
import { forgetMessage } from "./conntrack.ts";

const hex = (bytes: Uint8Array) => bytes.toHex();

Deno.test("conntrack: the message to forget flows, as the kernel's header has it", () => {
  assert.equal(
    hex(forgetMessage({ ip: "10.4.0.2", port: 0x1234 })),
    "44000000" + "0201" + "0500" + "0000000000000000" + "02010000" +
      "24000280" + "0c000180" + "08000100" + "0a040002" +
      "14000280" + "0500010011000000" + "0600020012340000" +
      "0c001980" + "0800020019000000",
  );
  assert.match(hex(forgetMessage({ port: 53 })), /^380000000201.*0c0019800800020018000000$/);
});

Deno.test("conntrack: flows of IPv6 are told by the family and the port alone", () => {
  const message = forgetMessage({ ip: "fd00::2", port: 53 });
  assert.deepEqual(message, forgetMessage({ port: 53 }, 6));
  assert.match(hex(message), /^380000000201.{20}0a010000.*0c0019800800020018000000$/);
});
