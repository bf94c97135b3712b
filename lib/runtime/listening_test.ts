import assert from "node:assert/strict";
import { busyConnections, inFlight, listenedOn, openPorts } from "./listening.ts";

Deno.test("only sockets that others reach count, of both address families", () => {
  const head = "  sl  local_address rem_address   st tx_queue rx_queue\n";
  const any = "0".repeat(32);
  assert.deepEqual(
    openPorts(
      `${head}   0: 00000000:1F90 00000000:0000 0A 00000000:00000000\n` +
        "   1: 0200000A:0050 0100007F:9C40 01 00000000:00000000\n" +
        "   2: 0100007F:0051 00000000:0000 0A 00000000:00000000\n",
      "tcp",
    ),
    [8080],
  );
  assert.deepEqual(openPorts(`${head}   0: ${any}:01BB ${any}:0000 0A 0:0\n`, "tcp"), [443]);
  assert.deepEqual(openPorts(`${head}   0: 00000000:0035 00000000:0000 07 0:0\n`, "udp"), [53]);
});

Deno.test({
  name: "a process's ports are seen as it opens them; of one that is gone there are none",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const listener = Deno.listen({ hostname: "0.0.0.0", port: 0 });
    const port = { container: listener.addr.port, protocol: "tcp" as const };
    const other = { ...port, protocol: "udp" as const };
    assert.deepEqual(await listenedOn(Deno.pid, [port, other]), [port]);
    assert.deepEqual(await listenedOn(Deno.pid, []), []);
    listener.close();
    assert.deepEqual(await listenedOn(Deno.pid, [port]), []);
    assert.deepEqual(await listenedOn(2 ** 30, [port]), []);
    assert.equal(await inFlight(2 ** 30), 0);
  },
});

Deno.test("a connection is in flight until it was answered", () => {
  const row = (port: number, words: string) =>
    `0      0      10.4.0.2:${port}    10.4.0.1:41000 cubic rto:204 bytes_received:9 ${words}\n`;
  const busy = (words: string, port = 80) =>
    busyConnections(`ESTAB ${row(port, words)}`, new Set([80]));
  assert.equal(busy("bytes_sent:5 lastsnd:5000 lastrcv:900"), 1, "asked, and not answered");
  assert.equal(busy("lastsnd:5000 lastrcv:5000"), 1, "asked at once, and not answered");
  assert.equal(busy("bytes_sent:5 lastsnd:5000 lastrcv:5000"), 0, "answered at once");
  assert.equal(busy("bytes_sent:5 lastsnd:900 lastrcv:5000"), 0, "answered, and kept open");
  assert.equal(busy("bytes_sent:5 lastsnd:20 lastrcv:5000"), 1, "being answered");
  assert.equal(busy("bytes_sent:5 lastrcv:5000"), 1, "being answered at this moment");
  assert.equal(busy("bytes_sent:5 lastsnd:5000 lastrcv:900", 41000), 0, "one that went out");
});
