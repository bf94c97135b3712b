import assert from "node:assert/strict";
import { links, linksIn } from "./links.ts";

/** What the kernel answered for a bridge with a port (Linux 6.1), shortened to what is read, and the end. */
const ANSWER = Uint8Array.fromHex(
  "40000000" + "1000" + "0200" + "0000000000000000" + // a message about a link
    "0000" + "0100" + "07000000" + "4310000000000000" + // its index is 7
    "09000300" + "6d696e6500" + "000000" + // its name
    "14001200" + "0b000100" + "627269646765" + "0000" + "04000280" + // its kind
    "38000000" + "1000" + "0200" + "0000000000000000" +
    "0000" + "0100" + "09000000" + "4310000000000000" +
    "08000300" + "76306100" + // its name
    "08000a00" + "07000000" + // it is a port of 7
    "08001200" + "04000180" + // it says no kind
    "14000000" + "0300" + "0200" + "0000000000000000" + "00000000", // the end
);

Deno.test("links: index, name, kind and master from the kernel's answer, to its end", () => {
  assert.deepEqual(linksIn(ANSWER), {
    links: [{ index: 7, name: "mine", kind: "bridge" }, {
      index: 9,
      name: "v0a",
      master: 7,
      kind: "",
    }],
    done: true,
  });
  assert.equal(linksIn(ANSWER.subarray(0, 64)).done, false);
  const refused = ANSWER.slice(0, 20);
  refused.set([20, 0, 0, 0, 2, 0], 0);
  new DataView(refused.buffer).setInt32(16, -1, true);
  assert.throws(() => linksIn(refused), /list links/);
});

Deno.test("links: of this host, the loopback interface among them", {
  ignore: Deno.build.os !== "linux",
}, () => {
  const lo = links().find(({ name }) => name === "lo");
  assert.deepEqual(lo, { index: 1, name: "lo" });
});
