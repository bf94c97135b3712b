import assert from "node:assert/strict";
import { createServer } from "node:net";
import { SvcError } from "../base/errors.ts";
import { connDuplex, type Duplex } from "../wire/duplex.ts";
import { socketDuplex } from "../wire/socket_duplex.ts";
import { duplexPair } from "../wire/testing.ts";
import { callersDial, proxyFor, withoutProxy } from "./caller.ts";
import { egressPolicy } from "./policy.ts";
import { EgressRelay, proxyListener } from "./relay.ts";
import { dialledByCaller, serveEgressStream, streamFields } from "./stream.ts";

const { signal } = new AbortController();
const target = (host: string, port = 443) => ({ host, port });

/** Says its name, then what it is told. */
function echo(name: string) {
  const server = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  (async () => {
    for await (const conn of server) {
      const stream = connDuplex(conn);
      await stream.write(new TextEncoder().encode(`${name} `));
      for (let bytes = await stream.read(); bytes; bytes = await stream.read()) {
        await stream.write(bytes);
      }
      await stream.closeWrite();
      stream.reset();
    }
  })();
  return { port: server.addr.port, [Symbol.dispose]: () => server.close() };
}

/** A proxy that keeps what it was asked for, and leads every connection to one port. */
function proxy(to: number) {
  const asked: string[] = [];
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const relay = new EgressRelay({
    listener: proxyListener(listener),
    policy: egressPolicy({}),
    dialers: {
      cluster: async ({ host, port }) => {
        asked.push(`${host}:${port}`);
        return connDuplex(await Deno.connect({ hostname: "127.0.0.1", port: to }));
      },
    },
  });
  return { asked, port: listener.addr.port, [Symbol.dispose]: () => relay[Symbol.dispose]() };
}

async function said(stream: Duplex, text: string): Promise<string> {
  await stream.write(new TextEncoder().encode(text));
  await stream.closeWrite();
  let answer = "";
  for (let bytes = await stream.read(); bytes; bytes = await stream.read()) {
    answer += new TextDecoder().decode(bytes);
  }
  stream.reset();
  return answer;
}

Deno.test("NO_PROXY names hosts with all below them, addresses, ranges and ports", () => {
  const list = "corp.example, .other.example,10.0.0.0/8,192.0.2.1,x.example:8443";
  for (const host of ["corp.example", "a.corp.example", "other.example", "10.1.2.3", "192.0.2.1"]) {
    assert.ok(withoutProxy(list, target(host)), host);
  }
  assert.ok(withoutProxy(list, target("x.example", 8443)));
  for (const host of ["notcorp.example", "11.0.0.1", "x.example"]) {
    assert.ok(!withoutProxy(list, target(host)), host);
  }
  assert.ok(withoutProxy("*", target("any.example")));
  assert.ok(!withoutProxy("", target("any.example")));
});

Deno.test("the proxy of a target: by its port, never for this machine", () => {
  const proxies = { HTTP_PROXY: "plain.test:1", HTTPS_PROXY: "http://tls.test:2" };
  assert.equal(proxyFor(proxies, target("a.example", 80))?.hostname, "plain.test");
  assert.equal(proxyFor(proxies, target("a.example", 5432))?.hostname, "tls.test");
  assert.equal(
    proxyFor({ ALL_PROXY: "socks5://s.test" }, target("a.example", 80))?.protocol,
    "socks5:",
  );
  assert.equal(proxyFor(proxies, target("localhost", 80)), undefined);
  assert.equal(proxyFor(proxies, target("127.0.0.1", 80)), undefined);
  assert.equal(proxyFor({}, target("a.example")), undefined);
  assert.throws(() => proxyFor({ ALL_PROXY: "http://:::" }, target("a.example")), {
    code: "config_invalid",
  });
});

for (const scheme of ["http", "socks5"]) {
  Deno.test(`the caller dials through his ${scheme} proxy, by name`, async () => {
    using server = echo("behind");
    using through = proxy(server.port);
    const dial = callersDial({
      policy: egressPolicy({ default: "client" }),
      proxies: { HTTPS_PROXY: `${scheme}://127.0.0.1:${through.port}` },
      lookup: () => Promise.reject(new Error("only the proxy knows it")),
    });
    const stream = await dial(target("db.corp.example", 5432), signal);
    assert.equal(await said(stream, "hello"), "behind hello");
    assert.deepEqual(through.asked, ["db.corp.example:5432"]);
  });
}

Deno.test("behind a proxy, too, an address that a rule denies is not asked for", async () => {
  using server = echo("never");
  using through = proxy(server.port);
  const policy = egressPolicy({
    rules: [{ pattern: "10.0.0.0/8", route: "deny" }],
    default: "client",
  });
  const proxies = { ALL_PROXY: `http://127.0.0.1:${through.port}` };
  const known = callersDial({ policy, proxies, lookup: () => Promise.resolve(["10.1.1.1"]) });
  await assert.rejects(known(target("a.example"), signal), { code: "denied" });
  const unknown = callersDial({ policy, proxies, lookup: () => Promise.reject(new Error("none")) });
  await assert.rejects(unknown(target("a.example"), signal), /only the proxy knows/);
  assert.deepEqual(through.asked, []);
});

Deno.test("a proxy that refuses or speaks nothing known is told", async () => {
  const answers = ["HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "220 mail\r\n\r\n", ""];
  for (
    const [answer, why] of answers.map((text, at) =>
      [text, [/407/, /no HTTP/, /hung up/][at]] as const
    )
  ) {
    const server = createServer({ allowHalfOpen: true }, (socket) => {
      const stream = socketDuplex(socket);
      void stream.read().then(async () => {
        await stream.write(new TextEncoder().encode(answer));
        await stream.closeWrite();
      }).catch(() => {});
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as { port: number };
    const dial = callersDial({
      policy: egressPolicy({ default: "client" }),
      proxies: { ALL_PROXY: `http://127.0.0.1:${port}` },
      lookup: () => Promise.resolve(["192.0.2.1"]),
    });
    await assert.rejects(dial(target("a.example"), signal), why);
    await new Promise((resolve) => server.close(resolve));
  }
});

Deno.test("a server that asks for more than the caller's rules give is refused, in words for the workload", async () => {
  using server = echo("secret");
  const dial = callersDial({
    policy: egressPolicy({
      rules: [{ pattern: "*.ok.example", route: "client" }],
      default: "deny",
    }),
    proxies: {},
  });
  const ask = async (fields: Record<string, unknown>) => {
    const [theirs, ours] = duplexPair();
    const served = serveEgressStream(theirs, fields, dial);
    const error = await dialledByCaller(ours, target("x"), signal).then(() => undefined, (e) => e);
    await served;
    return error as SvcError;
  };
  const denied = await ask(streamFields(target("127.0.0.1", server.port)));
  assert.equal(denied.code, "denied");
  assert.match(denied.message, /the egress rules deny it .from the caller's machine./);
  for (
    const fields of [{}, { host: 1, port: 1 }, { host: "a", port: 0 }, { host: "a b", port: 1 }]
  ) {
    assert.equal((await ask(fields)).code, "argument_invalid", JSON.stringify(fields));
  }
});
