import assert from "node:assert/strict";
import { nearAddress } from "./near_address.ts";

Deno.test("addresses that lead back, however they are written", () => {
  const own = ["192.168.7.1", "2001:db8::7", "10.64.3.1/24", "fe80::2%eth0"];
  const near = {
    loopback: ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "::ffff:7f00:1", "::127.0.0.1"],
    unspecified: ["0.0.0.0", "0.1.2.3", "::", "::ffff:0.0.0.0"],
    "link-local": ["169.254.169.254", "fe80::1", "fe80::1%eth0", "::ffff:169.254.169.254"],
    multicast: ["224.0.0.1", "239.255.255.255", "ff02::1"],
    reserved: ["255.255.255.255", "240.0.0.1"],
    server: ["192.168.7.1", "::ffff:192.168.7.1", "2001:db8::7", "2001:db8:0:0::0:7", "10.64.3.9"],
  };
  for (const [kind, addresses] of Object.entries(near)) {
    for (const one of addresses) assert.match(nearAddress(one, own) ?? "fine", RegExp(kind), one);
  }
  for (const one of ["64:ff9b::7f00:1", "2002:7f00:1::", "::ffff:0:127.0.0.1"]) {
    assert.match(nearAddress(one, own) ?? "fine", /loopback/, one);
  }
  for (
    const one of [
      "10.0.0.1",
      "10.64.4.9",
      "192.168.7.2",
      "8.8.8.8",
      "2001:db8::8",
      "::ffff:8.8.8.8",
    ]
  ) {
    assert.equal(nearAddress(one, own), undefined, one);
  }
  assert.throws(() => nearAddress("localhost", own), TypeError);
});
