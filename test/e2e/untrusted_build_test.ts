/** Builds of what others serve: files without an end, and addresses that lead back to the server. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { tar } from "../../scripts/build/tar.ts";
import { PATIENCE_MS } from "../waits.ts";
import { e2eTest, runTool, type Server, startServer } from "./harness.ts";

const NEEDS = { root: true, commands: ["runc", "git", "mkfifo", "tar"] };

/** The last event of a build, and whether the server answered others meanwhile. */
async function build(server: Server, query: string, dockerfile: string, token?: string) {
  const body = tar([{ path: "Dockerfile", data: dockerfile }]);
  const response = await fetch(`${server.url}/.svc/v1/build?${query}`, {
    method: "POST",
    body,
    headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
    signal: AbortSignal.timeout(PATIENCE_MS),
  });
  const text = await response.text();
  const health = await fetch(`${server.url}/healthz`, { signal: AbortSignal.timeout(PATIENCE_MS) });
  await health.body?.cancel();
  assert.ok(health.ok);
  return text.trim().split("\n").at(-1)!;
}

/** A server of this host that nobody outside is to reach; how often it was asked. */
function inner(answer: (path: string) => BodyInit = () => "in") {
  let asked = 0;
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, (request) => {
    asked++;
    return new Response(answer(new URL(request.url).pathname));
  });
  return {
    url: `http://127.0.0.1:${server.addr.port}`,
    asked: () => asked,
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

e2eTest(
  "a URL context whose Dockerfile or ignore file is a FIFO or a device fails its build alone",
  NEEDS,
  async () => {
    const folder = await Deno.makeTempDir({ prefix: "svc-e2e-fifo-" });
    try {
      const archives: string[] = [];
      for (
        const [name, ...make] of [
          ["Dockerfile", "mkfifo"],
          [".dockerignore", "mkfifo"],
          ["Dockerfile", "mknod", "c", "1", "5"],
        ]
      ) {
        const context = join(folder, `${archives.length}`);
        await Deno.mkdir(context);
        if (name !== "Dockerfile") {
          await Deno.writeTextFile(
            join(context, "Dockerfile"),
            "FROM scratch\n",
          );
        }
        await runTool(make[0], [join(context, name), ...make.slice(1)]);
        archives.push(join(folder, `${archives.length}.tar`));
        await runTool("tar", ["-C", context, "-cf", archives.at(-1)!, "."]);
      }
      await using serving = inner((path) => Deno.readFileSync(join(folder, path)));
      await using server = await startServer();
      for (const archive of archives) {
        const remote = `${serving.url}/${archive.split("/").pop()}`;
        const last = await build(server, `remote=${encodeURIComponent(remote)}`, "");
        assert.match(
          last,
          /Cannot read (Dockerfile|\.dockerignore): it is a (FIFO|character device)/,
        );
      }
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
);

e2eTest("a server with authentication fetches nothing from itself for a build", NEEDS, async () => {
  await using secret = inner();
  const token = "a-token-of-this-test";
  await using server = await startServer({ env: { SVC_AUTH_TOKEN: token } });
  const port = new URL(secret.url).port;
  const encoded = (text: string) => encodeURIComponent(text);
  const cases: [query: string, dockerfile: string][] = [
    ["", `FROM scratch\nADD ${secret.url}/x /x\n`],
    ["", `FROM scratch\nADD http://localhost:${port}/x /x\n`],
    ["", `FROM scratch\nADD ${server.url}/.svc/v1/info /x\n`],
    ["", `FROM scratch\nADD ${secret.url}/x.git /x\n`],
    ["", "FROM scratch\nADD git@127.0.0.1:x.git /x\n"],
    [`remote=${encoded(`${secret.url}/x.tar`)}`, ""],
    [`remote=${encoded(`${secret.url}/x.git`)}`, ""],
    [
      `buildcontext=${encoded(`other=${secret.url}/x.tar`)}`,
      "FROM scratch\nCOPY --from=other / /\n",
    ],
  ];
  for (const [query, dockerfile] of cases) {
    const last = await build(server, query, dockerfile, token);
    assert.match(last, /"denied"/, `${query} ${dockerfile}: ${last}`);
    assert.match(last, /Cannot connect to .* for a build: it is a loopback address/);
  }
  assert.equal(secret.asked(), 0);
});
