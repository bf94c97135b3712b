/** Who connects to the proxy may send rubbish, nothing, or half of it. */
import assert from "node:assert/strict";
import { pattern } from "../../wire/testing.ts";
import {
  connected,
  echo,
  HELLO,
  isReset,
  listening,
  LocalServices,
  RawClient,
  request,
  testProxy,
} from "./socks5_testing.ts";

/** What a client that sends this gets, up to the end or a reset. */
async function answered(port: number, bytes: number[] | string): Promise<number[]> {
  using client = await RawClient.open(port);
  await client.send(bytes);
  const got: number[] = [];
  try {
    for (let byte = await client.take(1); byte.length > 0; byte = await client.take(1)) {
      got.push(...byte);
    }
  } catch (error) {
    assert.ok(isReset(error), String(error));
  }
  return got;
}

Deno.test("socks5: other protocols are hung up on with an answer of theirs, and told", async () => {
  await using proxy = await testProxy(new LocalServices({}));
  const text = (bytes: number[]) => new TextDecoder().decode(new Uint8Array(bytes));
  const http = text(await answered(proxy.port, "GET http://a/ HTTP/1.1\r\nhost: a\r\n\r\n"));
  assert.match(http, /^HTTP\/1\.1 400 Bad Request\r\n[^]*speaks SOCKS5, not HTTP/);
  const socks4 = await answered(proxy.port, [4, 1, 0, 80, 10, 0, 0, 1, 0]);
  assert.deepEqual(socks4, [0, 0x5b, 0, 0, 0, 0, 0, 0]);
  assert.deepEqual(await answered(proxy.port, [5, 1, 2, 1, 4, ...pattern(8)]), [5, 0xff]);
  assert.equal((await answered(proxy.port, [...HELLO, ...request("a", 1, 3)]))[3], 7);
  const told = proxy.told.map((line) =>
    line.replace("a client of the SOCKS5 proxy was refused", "")
  );
  assert.deepEqual(told, [
    ": it speaks HTTP; set this address as a SOCKS5 proxy instead",
    ": it speaks SOCKS4; set the client to SOCKS5, best with remote names",
    ": it insists on a name and a password (RFC 1929), and this proxy takes none; leave them out",
    ": it asks for UDP ASSOCIATE; there is only CONNECT",
  ]);
});

Deno.test("socks5: a handshake that never ends is hung up on, wherever it stops", async () => {
  await using proxy = await testProxy(new LocalServices({}), { limits: { handshakeMs: 200 } });
  const whole = [...HELLO, ...request("web.svc.internal", 80)];
  await Promise.all([0, 1, 2, 3, 4, 8, whole.length - 1].map(async (length) => {
    await assert.rejects(async () => {
      using client = await RawClient.open(proxy.port);
      if (length > 0) await client.send(whole.slice(0, length));
      await client.rest();
    }, isReset);
  }));
  // The one that was reset first was told of, the others are the same.
  assert.deepEqual(proxy.told, [
    "a SOCKS5 client sent no request within 200 ms: it was hung up on",
  ]);
});

Deno.test("socks5: a client that drips its request is hung up on all the same", async () => {
  await using proxy = await testProxy(new LocalServices({}), { limits: { handshakeMs: 300 } });
  await assert.rejects(async () => {
    using client = await RawClient.open(proxy.port);
    // As many methods as there can be: more bytes than it has time for.
    await client.send([5, 255]);
    for (;;) {
      await client.send([1]);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }, isReset);
});

Deno.test("socks5: an open connection may be idle for longer than a handshake", async () => {
  await using inner = await echo("inner");
  const handshakeMs = 300;
  await using proxy = await testProxy(new LocalServices({ web: inner.port }), {
    limits: { handshakeMs },
  });
  // On a machine that is busy it may take several.
  let asked: Awaited<ReturnType<typeof connected>> | undefined;
  while (!asked) asked = await connected(proxy, "web", 80).catch(() => undefined);
  using open = asked;
  assert.equal(await open.client.text(5), "inner");
  await new Promise((resolve) => setTimeout(resolve, 2 * handshakeMs));
  await open.client.send("still");
  assert.equal(await open.client.text(5), "still");
});

Deno.test("socks5: a client that has half closed gets the whole answer; one that takes none holds nothing up", async () => {
  let given = 0;
  const blob = pattern(256 * 1024);
  await using endless = listening(async (stream) => {
    for (;; given += blob.length) await stream.write(blob);
  });
  await using big = listening(async (stream) => {
    while (await stream.read());
    for (let n = 0; n < 8; n++) await stream.write(blob);
    await stream.closeWrite();
  });
  const services = new LocalServices({ endless: endless.port, big: big.port });
  await using proxy = await testProxy(services);
  using stuck = await connected(proxy, "endless", 1);
  assert.equal(stuck.reply, 0);
  using half = await connected(proxy, "big", 1);
  await half.client.stream.closeWrite();
  let size = 0;
  for (let bytes = await half.client.stream.read(); bytes;) {
    size += bytes.length;
    bytes = await half.client.stream.read();
  }
  assert.equal(size, 8 * blob.length);
  // What is given without being taken is what kernels hold, and no more.
  for (let before = -1; before !== given;) {
    before = given;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  assert.ok(given < 64 << 20, String(given));
});

Deno.test("socks5: hundreds that connect and vanish leave it as it was", async () => {
  await using inner = await echo("inner");
  await using proxy = await testProxy(new LocalServices({ web: inner.port }), {
    limits: { connections: 100 },
  });
  const asking = [...HELLO, ...request("web", 80)];
  for (let n = 0; n < 300; n++) {
    const client = await RawClient.open(proxy.port).catch(() => undefined);
    await client?.send(asking.slice(0, n % (asking.length + 1))).catch(() => {/* refused */});
    client?.stream.reset();
  }
  // All of them are let go of: as many as there may be have room.
  await using held = new AsyncDisposableStack();
  for (let n = 0; n < 100;) {
    const client = await RawClient.open(proxy.port).catch(() => undefined);
    const greeting = await client?.send(HELLO).then(() => client.take(2)).catch(() => []);
    if (greeting?.length === 2) n++, held.use(client!);
    else client?.stream.reset();
  }
});
