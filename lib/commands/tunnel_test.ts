import assert from "node:assert/strict";
import { join } from "node:path";
import type { TunnelBody } from "../api/tunnel.ts";
import { ndjson, svcFake } from "../../test/fixtures/cli.ts";

const TUNNEL = {
  ...{ id: "t1", deployment: "web", port: 80, protocol: "http", backend: "ssh", state: "up" },
  ...{ url: "http://public.example", held: true, connections: 0, subject: "me", openedAt: "" },
};
const OPENED = { type: "opened", tunnel: TUNNEL };
const CLOSED = { type: "closed" };

const port = (container: number, protocol = "tcp") => ({
  hostIP: "",
  host: container,
  container,
  protocol,
});

/** What the server is asked for, and what the command says; the server speaks these events. */
async function tunnel(
  args: string[],
  { events = [OPENED, CLOSED] as unknown[], ports = [port(80)], env = {}, config = {} } = {},
) {
  const bodies: TunnelBody[] = [];
  const folder = await Deno.makeTempDir();
  try {
    const file = join(folder, "config.json");
    await Deno.writeTextFile(
      file,
      JSON.stringify({ "current-context": "t", contexts: { t: { ...config } } }),
      { mode: 0o600 },
    );
    const result = await svcFake(["tunnel", ...args], {
      env: { SVC_CONFIG: file, HOME: folder, ...env },
      async handler(request) {
        if (request.method === "GET") return Response.json({ name: "web", ports, instances: [] });
        bodies.push(await request.json());
        return ndjson(...events);
      },
    });
    return { ...result, bodies };
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function withFiles(
  texts: Record<string, string>,
  act: (path: (name: string) => string) => Promise<void>,
): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    for (const [name, text] of Object.entries(texts)) {
      await Deno.writeTextFile(join(folder, name), text, { mode: 0o600 });
    }
    await act((name) => join(folder, name));
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("svc tunnel: the URL alone is on standard output, and another one when it changes", async () => {
  const events = [
    OPENED,
    { type: "alive" },
    { type: "down", reason: "the connection was closed" },
    { type: "up", url: "http://public.example" },
    { type: "down", reason: "again" },
    { type: "up", url: "http://other.example" },
    CLOSED,
  ];
  const { code, stdout, stderr, bodies } = await tunnel(["web:8080", "--protocol", "tcp"], {
    events,
  });
  assert.equal(code, 0, stderr);
  assert.equal(stdout, "http://public.example\nhttp://other.example\n");
  assert.match(stderr, /down, and tried again: the connection was closed\n.*up again/);
  assert.deepEqual(bodies, [{ deployment: "web", port: 8080, protocol: "tcp" }]);
  const json = await tunnel(["web", "--output", "json"], { events });
  assert.deepEqual(
    json.stdout.trim().split("\n").map((line) => JSON.parse(line).type),
    ["opened", "down", "up", "down", "up", "closed"],
  );
});

Deno.test("svc tunnel: the port is the only one that the deployment declares", async () => {
  const one = await tunnel(["web"], { ports: [port(80), port(80), port(53, "udp")] });
  assert.equal(one.bodies[0].port, 80);
  const several = await tunnel(["web"], { ports: [port(80), port(81)] });
  assert.equal(several.code, 2);
  assert.match(several.stderr, /it declares 80, 81\n.*web:80/);
  assert.match((await tunnel(["web"], { ports: [] })).stderr, /it declares no port/);
  for (const word of ["web:x", "web:0", "web:70000", ":80"]) {
    const { code, bodies } = await tunnel([word]);
    assert.equal(code, 2, word);
    assert.deepEqual(bodies, []);
  }
});

Deno.test("svc tunnel: it ends with what the server reports, and where the connection breaks", async () => {
  const error = {
    code: "upstream_failed",
    status: 502,
    title: "",
    detail: "the relay is gone",
    help: "",
  };
  const failed = await tunnel(["web:80"], { events: [OPENED, { type: "error", error }] });
  assert.equal(failed.code, 1);
  assert.match(failed.stderr, /svc: the relay is gone/);
  const cut = await tunnel(["web:80"], { events: [OPENED] });
  assert.equal(cut.code, 1);
  assert.match(cut.stderr, /Cannot hold the tunnel: .* closed the connection/);
});

Deno.test("svc tunnel: an interruption ends it in good order", async () => {
  const abort = new AbortController();
  let told = false;
  const { code, stdout } = await svcFake(["tunnel", "web:80"], {
    signal: abort.signal,
    handler: () => {
      const stream = new ReadableStream<Uint8Array>({
        start: (controller) =>
          controller.enqueue(new TextEncoder().encode(`${JSON.stringify(OPENED)}\n`)),
        pull: () => {
          // The first line has been taken.
          setTimeout(() => abort.abort(new DOMException("interrupted", "AbortError")), 100);
          return new Promise(() => {});
        },
        cancel: () => void (told = true),
      });
      return new Response(stream, { headers: { "content-type": "application/x-ndjson" } });
    },
  });
  assert.equal(code, 0);
  assert.match(stdout, /^(http:\/\/public\.example\n)?$/);
  assert.ok(told);
});

Deno.test("tunnel.authtoken-file: the profile's file below flags and variable, above the server's own", async () => {
  await withFiles({ stored: "from-profile\n", named: "from-file\n" }, async (path) => {
    const config = { tunnel: { "authtoken-file": path("stored") } };
    const env = { SVC_TUNNEL_AUTHTOKEN: "from-variable" };
    const rows: [string[], Parameters<typeof tunnel>[1], string | undefined][] = [
      [[], {}, undefined],
      [[], { config }, "from-profile"],
      [[], { config, env }, "from-variable"],
      [["--authtoken-file", path("named")], { config, env }, "from-file"],
      [["--authtoken", "from-flag"], { config, env }, "from-flag"],
    ];
    for (const [args, options, credential] of rows) {
      const { code, stderr, stdout, bodies } = await tunnel(["web:80", ...args], options);
      assert.equal(code, 0, stderr);
      assert.equal(bodies[0].credential, credential);
      assert.doesNotMatch(stdout + stderr, /from-/);
      assert.doesNotMatch(stderr, /no effect/);
    }
    const both = ["--authtoken", "a", "--authtoken-file", path("named")];
    assert.match((await tunnel(["web:80", ...both])).stderr, /exclude each other/);
  });
});

Deno.test("svc tunnel: files of a credential that are missing, empty, too large, or everybody's", async () => {
  await withFiles({ empty: "\n", large: "x".repeat(70_000), open: "token" }, async (path) => {
    for (
      const [name, why] of [
        ["none", /there is no such file/],
        ["empty", /it is empty/],
        ["large", /more than 65536 bytes/],
      ] as const
    ) {
      const { code, stderr, bodies } = await tunnel(["web:80", "--authtoken-file", path(name)]);
      assert.equal(code, 2);
      assert.match(stderr, why);
      assert.match(stderr, /Cannot read --authtoken-file/);
      assert.deepEqual(bodies, []);
    }
    await Deno.chmod(path("open"), 0o644);
    const warned = await tunnel(["web:80", "--authtoken-file", path("open")]);
    assert.equal(warned.code, 0);
    assert.match(warned.stderr, /warning: other users of this machine can read .*open; chmod 600/);
    const config = { tunnel: { "authtoken-file": path("none") } };
    assert.match(
      (await tunnel(["web:80"], { config })).stderr,
      /Cannot read tunnel\.authtoken-file/,
    );
  });
});

Deno.test("svc tunnel: a credential goes to no server that everybody can listen to", async () => {
  const args = ["tunnel", "web:80", "--server", "http://svc.example"];
  const { code, stderr } = await svcFake([...args, "--authtoken", "secret-of-mine"]);
  assert.equal(code, 2);
  assert.match(stderr, /Cannot send the tunnel's credential to http:\/\/svc\.example: everybody/);
  assert.doesNotMatch(stderr, /secret-of-mine/);
});
