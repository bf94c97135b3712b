/** `svc socks5` and the fields of `conduit.socks5`, against a server whose workloads say who they are. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { svcFake } from "../../test/fixtures/cli.ts";
import { freePort } from "../../test/fixtures/free_port.ts";
import { SvcError } from "../base/errors.ts";
import { interruption } from "../base/terminal.ts";
import { deployment, HELLO, RawClient, request } from "../client/conduit/socks5_testing.ts";
import { upgradeAttached } from "../wire/attached/testing.ts";
import { parseRule } from "./socks5.ts";

const NAMES = ["db", "web"];

/** Deployments `db` and `web`; each port says "name:port" and ends. */
function handler(request: Request, url: URL): Response {
  if (url.pathname === "/.svc/v1/deployments") {
    return Response.json(NAMES.map((name) => deployment(name)));
  }
  const [, name] = /^\/\.svc\/v1\/deployments\/([^/]+)\/forward$/.exec(url.pathname) ?? [];
  if (!NAMES.includes(name)) throw new SvcError("not_found", `Cannot find ${name}: no such`);
  const { session, response } = upgradeAttached(request);
  void (async () => {
    const stream = session.open("port");
    await stream.write(new TextEncoder().encode(`${name}:${url.searchParams.get("port")}`));
    await stream.closeWrite();
  })();
  return response;
}

interface Running {
  address: string;
  /** What `host:port` says through the proxy; the reply's code where that is a refusal. */
  ask(host: string, port: number): Promise<string | number>;
}

/** `svc socks5 ARGS` with a profile whose `conduit.socks5` is `fields`, for as long as `use` takes. */
async function running(
  args: string[],
  fields: Record<string, unknown>,
  use: (proxy: Running) => Promise<void>,
) {
  const folder = await Deno.makeTempDir();
  try {
    const config = join(folder, "config.json");
    const conduit = { mode: "port-forward", socks5: fields };
    await Deno.writeTextFile(
      config,
      JSON.stringify({ "current-context": "a", contexts: { a: { conduit } } }),
      { mode: 0o600 },
    );
    const controller = new AbortController();
    const address = Promise.withResolvers<string>();
    const result = svcFake(["socks5", ...args], {
      handler,
      env: { SVC_CONFIG: config },
      signal: controller.signal,
      onOutput: (text) => {
        const [found] = /127\.0\.0\.1:\d+/.exec(text) ?? [];
        if (found) address.resolve(found);
      },
    });
    result.then(({ stderr }) => address.reject(new Error(`it ended: ${stderr}`)));
    const ask = async (host: string, port: number) => {
      using client = await RawClient.open(Number((await address.promise).split(":")[1]));
      await client.send([...HELLO, ...request(host, port)]);
      await client.take(2);
      const [, reply] = await client.take(10);
      return reply === 0 ? await client.text(Infinity) : reply;
    };
    try {
      await use({ address: await address.promise, ask });
    } finally {
      controller.abort(interruption("SIGINT"));
      await result;
    }
    return await result;
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const FREE = ["--listen", "127.0.0.1:0"];

Deno.test("svc socks5, conduit.socks5: the address on standard output, workloads behind it, 0 when interrupted", async () => {
  const { code, stdout, stderr, requests } = await running(FREE, {}, async ({ ask }) => {
    assert.equal(await ask("db.svc.internal", 5432), "db:5432");
    assert.equal(await ask("WEB", 80), "web:80");
    assert.equal(await ask("none.svc.internal", 80), 4);
  });
  assert.equal(code, 0);
  assert.match(stdout, /^socks5 proxy on 127\.0\.0\.1:\d+\n$/);
  assert.match(stderr, /^svc: Cannot find none: no such\n$/);
  assert.ok(requests.includes("GET /deployments/db/forward?port=5432&protocol=tcp"));
  const json = await running([...FREE, "--output", "json"], {}, async () => {});
  assert.match(JSON.parse(json.stdout).socks5, /^127\.0\.0\.1:\d+$/);
});

Deno.test("conduit.socks5.listen: the profile's address, below --listen", async () => {
  const port = freePort();
  const fields = { listen: `127.0.0.1:${port}` };
  await running([], fields, async ({ address, ask }) => {
    assert.equal(address, `127.0.0.1:${port}`);
    assert.equal(await ask("web", 80), "web:80");
    await running(FREE, fields, ({ address }) => {
      assert.notEqual(address, `127.0.0.1:${port}`);
      return Promise.resolve();
    });
    // It is in use now.
    const { code, stderr } = await svcFake(["socks5", "--listen", address], { handler });
    assert.equal(code, 1);
    assert.equal(
      stderr,
      `svc: Cannot open the SOCKS5 proxy on ${address}: address in use\n` +
        "  stop what listens there, or choose another address with --listen or conduit.socks5.listen\n",
    );
  });
});

Deno.test("conduit.socks5.service-host-suffix: the profile's, below --service-host-suffix", async () => {
  const fields = { "service-host-suffix": ".corp.test" };
  await running(FREE, fields, async ({ ask }) => {
    assert.equal(await ask("db.corp.test", 1), "db:1");
    assert.equal(await ask("x.y.corp.test", 1), 4);
  });
  await running([...FREE, "--service-host-suffix", "my.test"], fields, async ({ ask }) => {
    assert.equal(await ask("db.my.test", 1), "db:1");
  });
});

Deno.test("conduit.socks5.resolve: pattern and replace of the profile in their order, below --resolve", async () => {
  const fields = {
    resolve: [
      { pattern: "^(\\w+)-main\\.example:(\\d+)$", replace: "\\1:\\2" },
      { pattern: "example", replace: "web:8080" },
    ],
  };
  await running(FREE, fields, async ({ ask }) => {
    assert.equal(await ask("db-main.example", 5432), "db:5432");
    assert.equal(await ask("db-other.example", 5432), "web:8080");
    assert.equal(await ask("web", 80), "web:80");
  });
  const flag = ["--resolve", "^(?:a=b|(db)\\.any):=\\1:7", "--resolve", "^.*$=web:9"];
  await running([...FREE, ...flag], fields, async ({ ask }) => {
    assert.equal(await ask("db.any", 1), "db:7");
    assert.equal(await ask("db-main.example", 1), "web:9");
  });
  // A suffix as a flag is the choice of a suffix.
  await running([...FREE, "--service-host-suffix", ".example"], fields, async ({ ask }) => {
    assert.equal(await ask("db.example", 1), "db:1");
  });
});

Deno.test("conduit.socks5.bare-service-names: off in the profile, on by flag, and the other way", async () => {
  using other = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = other.addr;
  NAMES.push("localhost");
  try {
    const off = { "bare-service-names": false };
    await running(FREE, off, async ({ ask }) => {
      const said = ask("localhost", port);
      using conn = await other.accept();
      await conn.write(new TextEncoder().encode("this machine"));
      await conn.closeWrite();
      assert.equal(await said, "this machine");
    });
    await running([...FREE, "--bare-service-names"], off, async ({ ask }) => {
      assert.equal(await ask("localhost", port), `localhost:${port}`);
    });
    await running([...FREE, "--no-bare-service-names"], {}, async ({ ask }) => {
      const said = ask("localhost", port);
      using conn = await other.accept();
      await conn.closeWrite();
      assert.equal(await said, "");
    });
  } finally {
    NAMES.pop();
  }
});

Deno.test("svc socks5: what is wrong is said before anything listens", async () => {
  const rows: [string[], number, RegExp][] = [
    [["--listen", "1080"], 2, /Cannot read the address of the SOCKS5 proxy: "1080"/],
    [["--resolve", "web:80"], 2, /Cannot read --resolve: "web:80" has no pattern and =/],
    [["--resolve", "(=web:80"], 2, /Cannot use resolve rule 1: "\(" is not a regular expression/],
    [["--resolve", "a=web"], 2, /"web" is not service:port/],
    [["--service-host-suffix", ""], 2, /Cannot use the service host suffix ""/],
  ];
  for (const [args, exit, message] of rows) {
    const { code, stdout, stderr } = await svcFake(["socks5", ...FREE, ...args], { handler });
    assert.deepEqual([code, stdout], [exit, ""], stderr);
    assert.match(stderr, message);
  }
  const down = await svcFake(["socks5", ...FREE]);
  assert.deepEqual([down.code, down.stdout], [1, ""]);
});

Deno.test("--resolve: the last = divides pattern and replacement", () => {
  assert.deepEqual(parseRule("^a(?=b)=web:80"), { pattern: "^a(?=b)", replace: "web:80" });
});
