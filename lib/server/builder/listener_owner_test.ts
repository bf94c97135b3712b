import assert from "node:assert/strict";
import { listenerOwner, ownerIn } from "./listener_owner.ts";

const HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n";
const row = (local: string, state: string, uid: number) =>
  `   0: ${local} 00000000:0000 ${state} 00000000:00000000 00:00000000 00000000 ${uid}  0 1674 1\n`;

Deno.test("a listener's owner: of the loopback address before all addresses, and no connection's", () => {
  const port = 0x1f90;
  assert.equal(ownerIn(HEAD, port), undefined);
  const connection = HEAD + row("0100007F:1F90", "01", 1000);
  assert.equal(ownerIn(connection, port), undefined);
  const everywhere = connection + row("00000000:1F90", "0A", 1001);
  assert.equal(ownerIn(everywhere, port), 1001);
  assert.equal(ownerIn(everywhere + row("0100007F:1F90", "0A", 0), port), 0);
  assert.equal(ownerIn(everywhere + row("0100007F:1F91", "0A", 0), port), 1001);
  assert.equal(ownerIn(HEAD + row("0200007F:1F90", "0A", 7), port), undefined, "another address");
});

Deno.test({
  name: "the owner of a listener of this process is this user",
  ignore: Deno.build.os !== "linux",
  async fn() {
    const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const { port } = listener.addr;
    assert.equal(await listenerOwner(port), Deno.uid());
    listener.close();
    assert.equal(await listenerOwner(port), undefined);
  },
});
