import assert from "node:assert/strict";
import { COMMANDS } from "../../cli.ts";
import { svcFake } from "../../test/fixtures/cli.ts";
import { interruption } from "../base/terminal.ts";

Deno.test("help: of everything, and of each command by both ways", async () => {
  const all = await svcFake([]);
  assert.equal(all.code, 0);
  for (const { name } of COMMANDS) {
    assert.match(all.stdout, new RegExp(`^  ${name} +\\S`, "m"));
    if (name === "serve") continue;
    const flag = await svcFake([name, "--help"]);
    assert.equal(flag.code, 0);
    assert.match(flag.stdout, new RegExp(`^Usage: svc ${name} `));
    assert.match(flag.stdout, /--server URL/);
    assert.equal((await svcFake(["help", name])).stdout, flag.stdout);
  }
  assert.equal((await svcFake(["--help"])).stdout, all.stdout);
  assert.equal((await svcFake(["help", "serve"])).stdout, "serve --help\n");
});

Deno.test("serve gets its words as they stand", async () => {
  const { code, stdout } = await svcFake(["serve", "--addr", ":1", "--", "x"]);
  assert.equal(code, 0);
  assert.equal(stdout, "serve --addr :1 -- x\n");
});

Deno.test("what cannot be read ends with 2 and names the nearest", async () => {
  const cases: [string[], RegExp][] = [
    [
      ["biuld"],
      /^svc: Cannot run biuld: unknown command; did you mean build\?\n {2}see `svc --help`\n$/,
    ],
    [
      ["ps", "--ouput", "json"],
      /^svc: Cannot read --ouput: unknown flag; did you mean --output\?\n {2}see `svc ps --help`/,
    ],
    [["--sever", "x", "ps"], /did you mean --server\?/],
    [["ps", "extra"], /^svc: Cannot read extra: no argument is expected here/],
    [
      ["status"],
      /^svc: Cannot run status: NAME is missing\n {2}usage: svc status \[OPTIONS\] NAME/,
    ],
    [["status", "a", "b"], /b is one argument too many/],
    [["exec", "web"], /COMMAND is missing/],
    [["ps", "--output", "xml"], /--output: "xml" is not one of auto, plain, fancy, json/],
    [["ps", "--server", "ftp://x"], /Cannot use server "ftp:\/\/x"/],
    [["help", "nothing"], /Cannot run nothing: unknown command/],
  ];
  for (const [args, text] of cases) {
    const { code, stdout, stderr } = await svcFake(args);
    assert.equal(code, 2, args.join(" "));
    assert.equal(stdout, "");
    assert.match(stderr, text);
  }
  const { code, stderr } = await svcFake(["ps"], { env: { SVC_OUTPUT: "xml" } });
  assert.equal(code, 2);
  assert.match(stderr, /SVC_OUTPUT/);
});

Deno.test("global flags before the command, and -- after it", async () => {
  const { stdout } = await svcFake(["--output", "json", "version"]);
  assert.equal(typeof JSON.parse(stdout).version, "string");
  const { stderr } = await svcFake(["--output=json", "status", "--", "-x"]);
  assert.match(stderr, /Cannot reach/);
  assert.match((await svcFake(["--version"])).stdout, /^svc \d/);
});

Deno.test("-o is --output with every command that has no other use for it", async () => {
  for (
    const args of [["-o", "json", "version"], ["version", "-o", "json"], ["version", "-ojson"]]
  ) {
    const { stdout } = await svcFake(args);
    assert.equal(typeof JSON.parse(stdout).version, "string", args.join(" "));
  }
  assert.match((await svcFake(["ps", "--help"])).stdout, /-o, --output MODE/);
  const pull = (await svcFake(["pull", "--help"])).stdout;
  assert.match(pull, /-o, --out FILE/);
  assert.match(pull, /^ {6}--output MODE/m);
});

Deno.test("no server, no svc server, and a server that was refused a credential", async () => {
  const nobody = await svcFake(["ps"]);
  assert.equal(nobody.code, 1);
  assert.match(
    nobody.stderr,
    /^svc: Cannot reach http:\/\/127\.0\.0\.1:9: .+\n {2}start `svc serve`/,
  );
  const other = await svcFake(["ps"], {
    handler: () => new Response("<html>", { status: 404, statusText: "Not Found" }),
  });
  assert.equal(other.code, 1);
  assert.match(other.stderr, /it answered 404 Not Found, not as an svc server does/);
  let seen: string | null = null;
  await svcFake(["ps"], {
    env: { SVC_TOKEN: "secret" },
    handler: (request) => {
      seen = request.headers.get("authorization");
      return Response.json([]);
    },
  });
  assert.equal(seen, "Bearer secret");
});

Deno.test("an error code of a newer server is shown, not stumbled over", async () => {
  const { code, stderr } = await svcFake(["ps"], {
    handler: () =>
      Response.json(
        {
          title: "",
          status: 418,
          code: "teapot",
          detail: "Cannot brew: short and stout",
          help: "tip",
        },
        { status: 418 },
      ),
  });
  assert.equal(code, 1);
  assert.equal(stderr, "svc: Cannot brew: short and stout\n  tip\n");
});

Deno.test("an interrupt ends with 130 and says nothing", async () => {
  const controller = new AbortController();
  const { promise: arrived, resolve } = Promise.withResolvers<void>();
  const { promise: held, resolve: letGo } = Promise.withResolvers<Response>();
  const running = svcFake(["ps"], {
    signal: controller.signal,
    handler: () => {
      resolve();
      return held;
    },
  });
  await arrived;
  controller.abort(interruption("SIGINT"));
  setTimeout(() => letGo(Response.json([])), 20);
  const { code, stdout, stderr } = await running;
  assert.deepEqual([code, stdout, stderr], [130, "", ""]);
});

Deno.test("a reader that went away ends it quietly", async () => {
  const { code, stderr } = await svcFake(["--help"], { brokenAfter: 0 });
  assert.deepEqual([code, stderr], [0, ""]);
});
