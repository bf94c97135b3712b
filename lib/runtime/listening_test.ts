import assert from "node:assert/strict";
import { listeningPorts, listensOn } from "./listening.ts";

Deno.test("only listening sockets count, of both address families", () => {
  const head = "  sl  local_address rem_address   st tx_queue rx_queue\n";
  assert.deepEqual(
    listeningPorts(
      `${head}   0: 00000000:1F90 00000000:0000 0A 00000000:00000000\n` +
        "   1: 0100007F:0050 0100007F:9C40 01 00000000:00000000\n",
    ),
    [8080],
  );
  const any = "0".repeat(32);
  assert.deepEqual(listeningPorts(`${head}   0: ${any}:01BB ${any}:0000 0A 0:0\n`), [443]);
});

Deno.test({
  name: "a process's ports are seen as it opens them; of one that is gone there are none",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const { port } = listener.addr;
    assert.equal(await listensOn(Deno.pid, [port]), true);
    assert.equal(await listensOn(Deno.pid, []), false);
    listener.close();
    assert.equal(await listensOn(Deno.pid, [port]), false);
    assert.equal(await listensOn(2 ** 30, [port]), false);
  },
});
