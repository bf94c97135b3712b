/** Where `svc build` goes: SVC_BUILDER, SVC_REGISTRY, and servers without sessions. */
import assert from "node:assert/strict";
import { ndjson, svcFake } from "../../../test/fixtures/cli.ts";
import type { BuildResult } from "../../api/build.ts";

const result: BuildResult = {
  digest: "sha256:" + "a".repeat(64),
  imageId: "sha256:" + "b".repeat(64),
  names: [],
  size: 10,
  ran: 1,
  cached: 1,
  durationMs: 5,
};

async function drained(request: Request): Promise<Response> {
  for await (const _ of request.body ?? []) { /* only its end counts */ }
  return ndjson({ type: "result", result });
}

async function withFolder(fn: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-place-" });
  try {
    await Deno.writeTextFile(`${folder}/Dockerfile`, "FROM scratch\n");
    await fn(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const tagsOf = (request: string) => new URLSearchParams(request.split("?")[1]).getAll("t");

Deno.test("build: SVC_BUILDER: a builder of its own builds, the server's registry gets the image", async () => {
  const builds: string[] = [];
  const builder = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    async (request) => {
      if (request.url.includes("/attach")) return new Response(null, { status: 404 });
      builds.push(request.url);
      return await drained(request);
    },
  );
  const handler = (request: Request, url: URL) => {
    assert.equal(`${request.method} ${url.pathname}`, "GET /.svc/v1/info");
    return Response.json({ registry: "http://server.example:5000" });
  };
  try {
    await withFolder(async (folder) => {
      const args = ["build", "-t", "app:v1", "-t", "other.example/app", folder];
      for (const scheme of ["http", "ws"]) {
        const env = { SVC_BUILDER: `${scheme}://127.0.0.1:${builder.addr.port}` };
        const built = await svcFake(args, { handler, env });
        assert.equal(built.code, 0, built.stderr);
        assert.deepEqual(tagsOf(builds.pop()!), [
          "server.example:5000/app:v1",
          "other.example/app",
        ]);
        const named = await svcFake(args, { env: { ...env, SVC_REGISTRY: "reg.example" } });
        assert.equal(named.code, 0, named.stderr);
        assert.deepEqual(tagsOf(builds.pop()!), ["reg.example/app:v1", "other.example/app"]);
      }
    });
  } finally {
    await builder.shutdown();
  }
});

Deno.test("build: SVC_REGISTRY names the registry of names without one", async () => {
  await withFolder(async (folder) => {
    const args = ["build", "-t", "app", folder];
    const built = await svcFake(args, {
      handler: drained,
      env: { SVC_REGISTRY: "reg.example:5000" },
    });
    assert.equal(built.code, 0, built.stderr);
    assert.deepEqual(tagsOf(built.requests.at(-1)!), ["reg.example:5000/app"]);
    const wrong = await svcFake(args, { handler: drained, env: { SVC_REGISTRY: "a b" } });
    assert.equal(wrong.code, 2);
    assert.match(wrong.stderr, /Cannot use SVC_REGISTRY=a b: expected host\[:port\]/);
  });
});

Deno.test("profile: context.registry-host: in the names of builds and deployments, below SVC_REGISTRY", async () => {
  await withFolder(async (folder) => {
    const config = `${folder}/config.json`;
    const contexts = { a: { "registry-host": "profile.example:5000" } };
    await Deno.writeTextFile(config, JSON.stringify({ "current-context": "a", contexts }), {
      mode: 0o600,
    });
    const server = Deno.serve(
      { hostname: "127.0.0.1", port: 0, onListen() {} },
      async (request) => {
        if (request.url.includes("/attach")) return new Response(null, { status: 404 });
        if (request.method === "POST" && request.url.includes("/build")) {
          seen.push(tagsOf(request.url)[0]);
          return await drained(request);
        }
        seen.push((await request.json()).image);
        return Response.json({
          action: "created",
          deployment: { name: "app", warnings: [], ports: [] },
        });
      },
    );
    const seen: string[] = [];
    const url = `http://127.0.0.1:${server.addr.port}`;
    await Deno.writeTextFile(
      config,
      JSON.stringify({ "current-context": "a", contexts: { a: { ...contexts.a, server: url } } }),
    );
    const run = async (args: string[], env: Record<string, string> = {}) => {
      const { code, stderr } = await svcFake(args, {
        env: { SVC_SERVER: "", SVC_CONFIG: config, ...env },
      });
      assert.equal(code, 0, stderr);
      return seen.pop();
    };
    const spec = `${folder}/app.yaml`;
    await Deno.writeTextFile(spec, "name: app\nimage: app:v1\n");
    try {
      const at = "profile.example:5000/app:v1";
      assert.equal(await run(["build", "-t", "app:v1", folder]), at);
      assert.equal(
        await run(["build", "-t", "app:v1", folder], { SVC_REGISTRY: "env.example" }),
        "env.example/app:v1",
      );
      assert.equal(await run(["build", "-t", "other.example/app", folder]), "other.example/app");
      assert.equal(await run(["deploy", "app:v1"]), at);
      assert.equal(await run(["deploy", "-f", spec]), at);
      assert.equal(await run(["deploy", "other.example/app"]), "other.example/app");
      // Another server's images are not in this one's registry.
      assert.equal(await run(["deploy", "app:v1", "--server", `${url}/other`]), "app:v1");
    } finally {
      await server.shutdown();
    }
  });
});

Deno.test("build: what only a session can bring is refused where the server has none", async () => {
  await withFolder(async (folder) => {
    const env = { TOKEN: "t" };
    for (const flags of [["--secret", "id=TOKEN"], ["--build-context", `x=${folder}`]]) {
      const built = await svcFake(["build", ...flags, folder], { handler: drained, env });
      assert.equal(built.code, 1);
      assert.match(
        built.stderr,
        new RegExp(`Cannot build with ${flags[0]}: .* has no build sessions`),
      );
    }
  });
});
