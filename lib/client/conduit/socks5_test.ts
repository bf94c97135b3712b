import assert from "node:assert/strict";
import { SvcError } from "../../base/errors.ts";
import { duplexPair, pattern } from "../../wire/testing.ts";
import {
  connected,
  deployment,
  echo,
  HELLO,
  isReset,
  listening,
  LocalServices,
  RawClient,
  request,
  testProxy,
} from "./socks5_testing.ts";

Deno.test("socks5: by suffix inward, everything else straight, each with its bytes", async () => {
  await using inner = await echo("inner");
  await using outer = await echo("outer");
  const services = new LocalServices({ db: inner.port });
  await using proxy = await testProxy(services);
  for (const host of ["db.svc.internal", "DB.Svc.Internal.", "db"]) {
    using asked = await connected(proxy, host, 5432);
    assert.equal(asked.reply, 0, host);
    await asked.client.send("ping");
    await asked.client.stream.closeWrite();
    assert.equal(await asked.client.text(Infinity), "innerping");
  }
  assert.deepEqual(services.dialled, ["db:5432", "db:5432", "db:5432"]);
  for (const host of ["127.0.0.1", "localhost", "localhost."]) {
    using asked = await connected(proxy, host, outer.port);
    assert.equal(asked.reply, 0, host);
    assert.equal(await asked.client.text(5), "outer");
  }
  assert.equal(services.dialled.length, 3);
  assert.deepEqual(proxy.told, []);
});

Deno.test("socks5: addresses of IPv4 and IPv6 go out as they are", async () => {
  await using outer = await echo("outer");
  await using proxy = await testProxy(new LocalServices({}));
  const port = [outer.port >> 8, outer.port & 255];
  const rows: [number[], number][] = [
    [[5, 1, 0, 1, 127, 0, 0, 1, ...port], 0],
    // The same, as IPv6 has it.
    [[5, 1, 0, 4, ...Array(10).fill(0), 255, 255, 127, 0, 0, 1, ...port], 0],
    [[5, 1, 0, 1, 127, 0, 0, 1, 0, 0], 1],
  ];
  for (const [bytes, reply] of rows) {
    using client = await RawClient.open(proxy.port);
    await client.send([...HELLO, ...bytes]);
    assert.deepEqual(await client.take(12), [5, 0, 5, reply, 0, 1, 0, 0, 0, 0, 0, 0]);
  }
});

Deno.test("socks5: rules replace the suffix; bare names come after them; the rest goes straight", async () => {
  await using inner = await echo("inner");
  await using outer = await echo("outer");
  const services = new LocalServices({ db: inner.port, web: inner.port });
  const rules = [{ pattern: "^(\\w+)\\.corp\\.test:(\\d+)$", replace: "\\1:\\2" }];
  await using proxy = await testProxy(services, { rules, suffix: ".0.0.1" });
  using byRule = await connected(proxy, "db.corp.test", 5432);
  assert.equal(byRule.reply, 0);
  using bare = await connected(proxy, "web", 80);
  assert.equal(bare.reply, 0);
  assert.deepEqual(services.dialled, ["db:5432", "web:80"]);
  // Of the suffix nothing is left.
  using straight = await connected(proxy, "127.0.0.1", outer.port);
  assert.equal(await straight.client.text(5), "outer");
  assert.deepEqual(services.dialled, ["db:5432", "web:80"]);
});

Deno.test("socks5: bare names may be turned off, and then nobody asks for the list", async () => {
  await using outer = await echo("outer");
  const services = new LocalServices({ localhost: outer.port });
  await using off = await testProxy(services, { bareServiceNames: false });
  using straight = await connected(off, "localhost", outer.port);
  assert.equal(await straight.client.text(5), "outer");
  assert.deepEqual([services.dialled, services.lists], [[], 0]);
  await using on = await testProxy(services);
  using inward = await connected(on, "localhost", outer.port);
  assert.equal(await inward.client.text(5), "outer");
  assert.deepEqual(services.dialled, [`localhost:${outer.port}`]);
});

Deno.test("socks5: who else answers for a host is asked first", async () => {
  const [ours, theirs] = duplexPair();
  const asked: string[] = [];
  const services = new LocalServices({});
  await using proxy = await testProxy(services, {
    route: (host, port) => {
      asked.push(`${host}:${port}`);
      return host === "app.example" ? () => Promise.resolve(theirs) : undefined;
    },
  });
  using answered = await connected(proxy, "App.Example.", 443);
  assert.equal(answered.reply, 0);
  await ours.write(new TextEncoder().encode("routed"));
  assert.equal(await answered.client.text(6), "routed");
  using other = await connected(proxy, "x.svc.internal", 80);
  assert.equal(other.reply, 4);
  assert.deepEqual(asked, ["app.example:443", "x.svc.internal:80"]);
});

Deno.test("socks5: what stands in the way has its code, and is told", async () => {
  const failing = (error: unknown) => ({
    dial: () => Promise.reject(error),
    list: () => Promise.resolve([deployment("web")]),
  });
  const codes = [
    ["not_found", 4],
    ["conflict", 4],
    ["upstream_failed", 5],
    ["denied", 2],
    ["timeout", 6],
    ["server_unreachable", 1],
  ] as const;
  for (const [code, reply] of codes) {
    await using proxy = await testProxy(failing(new SvcError(code, "Cannot reach web: no")));
    using asked = await connected(proxy, "web", 80);
    assert.equal(asked.reply, reply, code);
    assert.deepEqual(await asked.client.rest(), []);
    assert.deepEqual(proxy.told, ["Cannot reach web: no"]);
  }
  await using proxy = await testProxy(failing(new Error("odd")));
  using odd = await connected(proxy, "web", 80);
  assert.equal(odd.reply, 1);
  // A port of loopback where nobody listens: the listener that had it is gone.
  const { port } = (() => {
    using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    return listener.addr;
  })();
  using refused = await connected(proxy, "127.0.0.1", port);
  assert.equal(refused.reply, 5);
  // No resolver is asked for what cannot be a name.
  const long = `${"l".repeat(64)}.invalid`;
  for (const host of [long, "a b", "é.invalid", "..", "%00.invalid"]) {
    using unknown = await connected(proxy, host, 80);
    assert.equal(unknown.reply, 4, host);
  }
  assert.match(proxy.told[1], /^Cannot connect to 127\.0\.0\.1:\d+: connection refused$/);
  assert.equal(proxy.told[2], `Cannot connect to ${long}:80: there is no host of that name`);
});

Deno.test("socks5: a rule's result that is not a service, and a pattern that does not end, fail one connection", async () => {
  await using inner = await echo("inner");
  const services = new LocalServices({ web: inner.port });
  await using proxy = await testProxy(services, {
    rules: [
      { pattern: "^bad\\.(\\w*)", replace: "\\1" },
      { pattern: "^(a+)+:x", replace: "web:80" },
      { pattern: "^good", replace: "web:80" },
    ],
  });
  using bad = await connected(proxy, "bad.name", 80);
  assert.equal(bad.reply, 1);
  using endless = await connected(proxy, "a".repeat(200), 80);
  assert.equal(endless.reply, 6);
  using good = await connected(proxy, "good.name", 80);
  assert.equal(good.reply, 0);
  assert.deepEqual(proxy.told, [
    'Cannot use resolve rule 1: "\\\\1" makes "name" of bad.name:80, which is not service:port',
    `Cannot use resolve rule 2 on ${"a".repeat(200)}:80: its pattern did not end in 1000 ms`,
  ]);
});

Deno.test("socks5: each direction ends by itself, and a stream that breaks is not an end", async () => {
  await using server = listening(async (stream) => {
    let size = 0;
    for (let bytes = await stream.read(); bytes; bytes = await stream.read()) size += bytes.length;
    await stream.write(new TextEncoder().encode(`got ${size}`));
    await stream.closeWrite();
  });
  const [ours, theirs] = duplexPair();
  await using proxy = await testProxy(new LocalServices({ up: server.port }), {
    route: (host) => host === "broken" ? () => Promise.resolve(theirs) : undefined,
  });
  using upload = await connected(proxy, "up", 1);
  await upload.client.stream.write(pattern(700_000));
  await upload.client.stream.closeWrite();
  assert.equal(await upload.client.text(Infinity), "got 700000");

  using broken = await connected(proxy, "broken", 1);
  await ours.write(new Uint8Array(3));
  assert.deepEqual(await broken.client.take(3), [0, 0, 0]);
  ours.reset();
  await assert.rejects(broken.client.rest(), Deno.errors.ConnectionReset);
});

/** A client whose greeting was answered; undefined for one that was refused. */
async function greeted(port: number): Promise<RawClient | undefined> {
  let client: RawClient | undefined;
  try {
    client = await RawClient.open(port);
    await client.send(HELLO);
    if ((await client.take(2)).length === 2) return client;
  } catch (error) {
    if (!isReset(error)) throw error;
  }
  client?.stream.reset();
  return undefined;
}

Deno.test("socks5: many connections at once; beyond the limit they are refused, and that is told", async () => {
  await using inner = await echo("");
  await using proxy = await testProxy(new LocalServices({ web: inner.port }), {
    limits: { connections: 40 },
  });
  await using opened = new AsyncDisposableStack();
  const all = await Promise.all(
    Array.from({ length: 40 }, async (_, i) => {
      const asked = opened.use(await connected(proxy, "web", i + 1));
      assert.equal(asked.reply, 0);
      return asked.client;
    }),
  );
  await Promise.all(all.map(async (client, i) => {
    const bytes = pattern(50_000, i + 1);
    const sent = client.stream.write(bytes).then(() => client.stream.closeWrite());
    assert.deepEqual(new Uint8Array(await client.take(50_000)), bytes);
    await sent;
  }));
  await opened.disposeAsync();
  await using held = new AsyncDisposableStack();
  // Those before are let go of in their own time: until then some of these are refused.
  for (let n = 0; n < 40;) {
    const client = await greeted(proxy.port);
    if (client) n++, held.use(client);
  }
  assert.equal(await greeted(proxy.port), undefined);
  const text = "the SOCKS5 proxy has 40 connections: more are refused until some end";
  assert.ok(proxy.told.includes(text), proxy.told.join());
});

Deno.test("socks5: closing ends what is open and what is being connected", async () => {
  await using inner = await echo("inner");
  const dialling = Promise.withResolvers<AbortSignal>();
  const controller = new AbortController();
  const proxy = await testProxy(new LocalServices({ web: inner.port }), {
    signal: controller.signal,
    route: (host) =>
      host === "never"
        ? (signal) => {
          dialling.resolve(signal);
          return new Promise(() => {});
        }
        : undefined,
  });
  using open = await connected(proxy, "web", 80);
  assert.equal(await open.client.text(5), "inner");
  using idle = await RawClient.open(proxy.port);
  await idle.send([5]);
  using waiting = await RawClient.open(proxy.port);
  await waiting.send([...HELLO, ...request("never", 1)]);
  const signal = await dialling.promise;
  controller.abort();
  await proxy.closed;
  assert.ok(signal.aborted);
  for (const client of [open.client, waiting]) {
    await assert.rejects(
      client.rest().then((bytes) => {
        // What was answered before is read; then it breaks.
        assert.ok(bytes.length <= 2);
      }),
      Deno.errors.ConnectionReset,
    );
  }
  await proxy[Symbol.asyncDispose]();
  await assert.rejects(RawClient.open(proxy.port), Deno.errors.ConnectionRefused);
});

Deno.test("socks5: a client that breaks off ends the attempt to connect for it", async () => {
  const dialling = Promise.withResolvers<AbortSignal>();
  await using proxy = await testProxy(new LocalServices({}), {
    route: () => (signal) => {
      dialling.resolve(signal);
      return new Promise(() => {});
    },
  });
  const { createConnection } = await import("node:net");
  const socket = createConnection({ port: proxy.port, host: "127.0.0.1" });
  socket.on("error", () => {/* it breaks off by itself */});
  socket.write(new Uint8Array([...HELLO, ...request("slow.example", 1)]));
  const signal = await dialling.promise;
  const aborted = new Promise((resolve) => signal.addEventListener("abort", resolve));
  socket.resetAndDestroy();
  await aborted;
});

Deno.test("socks5: a connection that is not made in time", async () => {
  await using proxy = await testProxy(new LocalServices({}), {
    limits: { connectMs: 30 },
    route: () => () => new Promise(() => {}),
  });
  using asked = await connected(proxy, "slow.example", 1);
  assert.equal(asked.reply, 6);
  assert.deepEqual(proxy.told, ["Cannot connect to slow.example:1: not made in 0.03 s"]);
});

Deno.test("socks5: a port in use, an address that is none, a warning where others can reach it", async () => {
  const services = new LocalServices({});
  await using proxy = await testProxy(services);
  const says = (code: string, message: RegExp) => (error: unknown) =>
    error instanceof SvcError && error.code === code && message.test(error.message);
  await assert.rejects(
    testProxy(services, { listen: proxy.address }),
    says("address_in_use", /^Cannot open the SOCKS5 proxy on 127\.0\.0\.1:\d+: address in use$/),
  );
  await assert.rejects(
    testProxy(services, { listen: "1080" }),
    says("config_invalid", /is not an address/),
  );
  await assert.rejects(
    testProxy(services, { suffix: "." }),
    says("config_invalid", /^Cannot use the service host suffix "\."/),
  );
  assert.deepEqual(proxy.told, []);
  await using everywhere = await testProxy(services, { listen: "0.0.0.0:0" });
  assert.match(everywhere.told[0], /^the SOCKS5 proxy listens on 0\.0\.0\.0:\d+: whoever reaches/);
});
