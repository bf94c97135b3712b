/** Fetches for a build on a server with authentication: nothing that leads back to this host. */
import assert from "node:assert/strict";
import type { TreeTools } from "../plan/graph.ts";
import { CheckedProxy } from "./checked_proxy.ts";
import { gitTree } from "./git_tree.ts";
import { httpTree } from "./http_tree.ts";

async function fixture(): Promise<{ tools: TreeTools } & AsyncDisposable> {
  const folder = await Deno.makeTempDir({ prefix: "svc-checked-" });
  let count = 0;
  const tools: TreeTools = {
    temporary: async () => {
      const path = `${folder}/${count++}`;
      await Deno.mkdir(path);
      return { path, [Symbol.asyncDispose]: () => Deno.remove(path, { recursive: true }) };
    },
    notes: { get: () => Promise.resolve(undefined), put: () => Promise.resolve() },
    onProgress: () => {},
    checked: true,
    signal: new AbortController().signal,
  };
  return { tools, [Symbol.asyncDispose]: () => Deno.remove(folder, { recursive: true }) };
}

/** A server of this host; how often it was asked. */
function inner() {
  let asked = 0;
  const server = Deno.serve({ hostname: "0.0.0.0", port: 0, onListen: () => {} }, (request) => {
    asked++;
    const to = new URL(request.url).searchParams.get("to");
    return to ? new Response(null, { status: 302, headers: { location: to } }) : new Response("in");
  });
  return {
    port: server.addr.port,
    asked: () => asked,
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

const denied = { code: "denied", message: /for a build: it is (a|an) .*address/ };

/** An address of this host that is not loopback, where it has one. */
const own = Deno.networkInterfaces()
  .find(({ family, address }) => family === "IPv4" && !/^(127|169\.254)\./.test(address))?.address;

Deno.test("a URL that leads back to this host is refused, by whatever name and spelling", async () => {
  await using at = await fixture();
  await using server = inner();
  const hosts = ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "2130706433"];
  for (const host of own ? [...hosts, own] : hosts) {
    const url = `http://${host}:${server.port}/file`;
    await assert.rejects(httpTree(url).identity(at.tools), denied, url);
    await assert.rejects(httpTree(url).open(at.tools), denied, url);
    const secure = `https://${host}:${server.port}/file`;
    await assert.rejects(httpTree(secure).identity(at.tools), denied, secure);
    const git = { remote: `http://${host}:${server.port}/a.git` };
    await assert.rejects(gitTree(git).identity(at.tools), denied, git.remote);
  }
  await assert.rejects(httpTree("http://169.254.169.254/latest").identity(at.tools), denied);
  await assert.rejects(gitTree({ remote: "git@localhost:a.git" }).identity(at.tools), denied);
  const ssh = gitTree({ remote: "ssh://git@127.0.0.1:22/a.git" });
  await assert.rejects(ssh.identity(at.tools), denied);
  const old = gitTree({ remote: `git://127.0.0.1:${server.port}/a.git` });
  await assert.rejects(old.identity(at.tools), { code: "denied", message: /git:\/\// });
  assert.equal(server.asked(), 0);
  // Granted network.host.
  const free = { ...at.tools, checked: false };
  await using _tree = await httpTree(`http://127.0.0.1:${server.port}/file`).open(free);
});

Deno.test("a host that does not answer is named, and not blamed for the proxy's own answer", async () => {
  await using at = await fixture();
  const refused = {
    code: "upstream_failed",
    message: /: cannot connect to gone\.invalid(:443)?: /,
  };
  for (const url of ["http://gone.invalid/a", "https://gone.invalid/a"]) {
    await assert.rejects(httpTree(url).identity(at.tools), refused);
    await assert.rejects(gitTree({ remote: `${url}.git` }).identity(at.tools), refused);
  }
});

Deno.test("NO_PROXY of the server opens no way past the check", async () => {
  await using at = await fixture();
  await using server = inner();
  const before = Deno.env.get("NO_PROXY");
  Deno.env.set("NO_PROXY", "127.0.0.1,localhost");
  try {
    const url = `http://127.0.0.1:${server.port}/file`;
    await assert.rejects(httpTree(url).identity(at.tools), denied);
    await assert.rejects(gitTree({ remote: `${url}.git` }).identity(at.tools), denied);
    assert.equal(Deno.env.get("NO_PROXY"), "127.0.0.1,localhost");
  } finally {
    if (before === undefined) Deno.env.delete("NO_PROXY");
    else Deno.env.set("NO_PROXY", before);
  }
  assert.equal(server.asked(), 0);
});

/** `names`: what each look-up of a name gives, one after the other; 127.0.0.1 counts as far away for `far`. */
function proxied(names: Record<string, string[][]>, near: string[]) {
  const { signal } = new AbortController();
  return new CheckedProxy({
    signal,
    resolve: (host) => {
      const answers = names[host];
      if (!answers) return Promise.reject(new Error(`no such name: ${host}`));
      return Promise.resolve(answers.length > 1 ? answers.shift()! : answers[0]);
    },
    own: () => near,
  });
}

Deno.test("redirects are checked, and a name is looked up once for each connection", async () => {
  await using server = inner();
  // Addresses of this host stand for far ones: only those of `near` are refused.
  const far = own;
  if (far === undefined) return;
  const names = { outside: [[far]], rebinding: [[far], ["127.0.0.1"]] };
  {
    using proxy = proxied(names, []);
    const get = (url: string) => fetch(url, { client: proxy.client });
    const fine = await get(`http://outside:${server.port}/a?b=c`);
    assert.equal(await fine.text(), "in");
    assert.equal(proxy.refusal, undefined);
    const there = await get(`http://outside:${server.port}/?to=http://outside:${server.port}/x`);
    assert.equal(await there.text(), "in");
    const asked = server.asked();
    const back = await get(`http://outside:${server.port}/?to=http://127.0.0.1:${server.port}/x`);
    await back.body?.cancel();
    assert.equal(back.status, 403);
    assert.match(proxy.refusal!.message, /127\.0\.0\.1 .*loopback/);
    assert.equal(server.asked(), asked + 1);
  }
  {
    using proxy = proxied(names, []);
    const get = (url: string) => fetch(url, { client: proxy.client });
    assert.equal(await (await get(`http://rebinding:${server.port}/`)).text(), "in");
    const again = await get(`http://rebinding:${server.port}/`);
    await again.body?.cancel();
    assert.match(proxy.refusal!.message, /rebinding \(127\.0\.0\.1\)/);
  }
  {
    using proxy = proxied(names, [far]);
    const answer = await fetch(`http://outside:${server.port}/`, { client: proxy.client });
    await answer.body?.cancel();
    assert.match(proxy.refusal!.message, /an address of this server/);
  }
});

Deno.test("the proxy serves nobody but who made it", async () => {
  await using server = inner();
  using proxy = proxied({ outside: [[own ?? "10.0.0.1"]] }, []);
  const port = new URL(proxy.url).port;
  using client = Deno.createHttpClient({ proxy: { url: `http://127.0.0.1:${port}` } });
  const answer = await fetch(`http://outside:${server.port}/`, { client });
  await answer.body?.cancel();
  assert.equal(answer.status, 407);
});

Deno.test("the server's own proxy is used, for what does not lead back here", async () => {
  const heads: string[] = [];
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const serving = (async () => {
    for await (const conn of listener) {
      const buffer = new Uint8Array(4096);
      const got = await conn.read(buffer);
      heads.push(new TextDecoder().decode(buffer.subarray(0, got ?? 0)));
      const answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nup";
      await conn.write(new TextEncoder().encode(answer));
      conn.close();
    }
  })();
  const names = ["HTTP_PROXY", "NO_PROXY"];
  const before = names.map((name) => Deno.env.get(name));
  Deno.env.set("HTTP_PROXY", `http://me:secret@127.0.0.1:${listener.addr.port}`);
  Deno.env.set("NO_PROXY", "direct.example");
  try {
    using proxy = proxied({ local: [["127.0.0.1"]], "direct.example": [["127.0.0.1"]] }, []);
    const get = (url: string) => fetch(url, { client: proxy.client });
    assert.equal(await (await get("http://far.example/a")).text(), "up");
    assert.match(heads[0], /^GET http:\/\/far\.example\/a HTTP\/1\.1\r\n/);
    assert.ok(heads[0].includes(`Proxy-Authorization: Basic ${btoa("me:secret")}\r\n`));
    for (const host of ["local", "direct.example", "127.0.0.1"]) {
      const answer = await get(`http://${host}/`);
      await answer.body?.cancel();
      assert.equal(answer.status, 403, host);
    }
    assert.equal(heads.length, 1);
  } finally {
    for (const [index, name] of names.entries()) {
      if (before[index] === undefined) Deno.env.delete(name);
      else Deno.env.set(name, before[index]);
    }
    listener.close();
    await serving;
  }
});
