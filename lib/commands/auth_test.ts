import assert from "node:assert/strict";
import { runCli } from "../../cli.ts";
import { testKey } from "../auth/ssh/testing.ts";
import { silent } from "../base/log.ts";
import { loadServerSettings } from "../config/server_options.ts";
import { openActivity } from "../server/activity.ts";
import { EDGE_READS } from "../server/edge.ts";
import { openServerAuth } from "../server/auth.ts";
import { Lifecycle } from "../server/lifecycle.ts";
import { startTestServer } from "../server/testing.ts";

const TOKEN = "token-of-the-commands-test";

interface Fixture {
  folder: string;
  svc(args: string[], stop?: AbortSignal): Promise<{ code: number; out: string; err: string }>;
}

async function withServer(work: (fixture: Fixture) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  const env = { SVC_AUTH_TOKEN: TOKEN, SVC_AUTH_KEYSTORE: "file" };
  const config = loadServerSettings([], env).settings.of(...EDGE_READS);
  const lifecycle = new Lifecycle();
  const auth = await openServerAuth({ config, dataDir: folder, log: silent });
  const activity = openActivity({ config, dataDir: folder, lifecycle, log: silent });
  const server = await startTestServer({
    deps: { access: auth.access, lifecycle },
    routes: [...auth.routes, ...activity.routes],
    note: activity.note,
  });
  const svc: Fixture["svc"] = async (args, stop) => {
    const text = { out: "", err: "" };
    const sink = (to: "out" | "err") => ({
      write: (part: string) => (text[to] += part, Promise.resolve()),
      size: () => undefined,
    });
    const signal = stop ?? new AbortController().signal;
    const io = { stdout: sink("out"), stderr: sink("err"), signal };
    const code = await runCli(
      args,
      {
        env: { SVC_SERVER: server.base, SVC_TOKEN: TOKEN, SVC_CONFIG: `${folder}/none.yaml` },
        io,
        serve: () => Promise.resolve(0),
      } as unknown as Parameters<typeof runCli>[1],
    );
    return { code, ...text };
  };
  try {
    await work({ folder, svc });
  } finally {
    lifecycle.drain();
    await server[Symbol.asyncDispose]();
    await activity[Symbol.asyncDispose]();
    await auth[Symbol.asyncDispose]();
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("auth keys: enrolled, listed, removed, and all of it on record", async () => {
  await withServer(async ({ folder, svc }) => {
    const file = `${folder}/key.pub`;
    await Deno.writeTextFile(file, `${testKey("ed25519").line} from-comment\n`);
    const added = await svc(["auth", "keys", "add", file, "--expires", "24h", "--name", "alice"]);
    assert.equal(added.code, 0, added.err);
    assert.match(added.out, /^SHA256:\S{43} alice\n$/);
    const [fingerprint] = added.out.split(" ");
    const list = await svc(["auth", "keys", "list"]);
    assert.match(list.out, new RegExp(`^FINGERPRINT .*\n.*ssh-ed25519 +alice +api +enrolled +2`));
    assert.equal((await svc(["auth", "keys", "add", file, "--name", "bob"])).code, 1);
    const json = await svc(["auth", "keys", "list", "--output", "json"]);
    assert.equal(JSON.parse(json.out).fingerprint, fingerprint);
    const removed = await svc(["auth", "keys", "rm", "alice"]);
    assert.equal(removed.out, `${fingerprint}\n`);
    assert.equal((await svc(["auth", "keys", "rm", "alice"])).code, 1);
    const key = fingerprint.replaceAll("+", "\\+");
    const expected = [
      new RegExp(`^\\S+Z ok +auth +${key} alice by token from 127\\.0\\.0\\.1$`, "m"),
      new RegExp(` failed auth +${key} bob by token .*\\(conflict\\)$`, "m"),
      new RegExp(` ok +auth +delete ${key} by token`),
    ];
    // A client may have its answer before the server knows that it is out.
    for (const until = Date.now() + 60_000;;) {
      const { out, code } = await svc(["activity", "--tail", "all"]);
      assert.equal(code, 0);
      assert(!out.includes(TOKEN));
      if (expected.every((line) => line.test(out))) break;
      assert(Date.now() < until, out);
    }
  });
});

Deno.test("auth keys: a command line that is none, and files that are no keys", async () => {
  await withServer(async ({ folder, svc }) => {
    const fails = async (args: string[], why: RegExp, code = 2) => {
      const done = await svc(["auth", ...args]);
      assert.equal(done.code, code, args.join(" "));
      assert.match(done.err, why);
    };
    await fails(["keys"], /keys add, list or rm is missing/);
    await fails(["key", "list"], /"key" is not keys/);
    await fails(["keys", "lst"], /"lst" is not one of add, list, rm; did you mean list/);
    await fails(["keys", "add"], /add takes one FILE/);
    await fails(["keys", "list", "x"], /list takes no argument/);
    await fails(["keys", "rm"], /rm takes a NAME/);
    await fails(["keys", "list", "--name", "x"], /belong to keys add/);
    await fails(["keys", "add", `${folder}/none`], /there is no such file/);
    const file = `${folder}/key`;
    const texts: [string, RegExp][] = [
      ["-----BEGIN OPENSSH PRIVATE KEY-----\n", /holds a private key/],
      ["", /not exactly one key/],
      ["rubbish", /cannot be read|is not TYPE|options/],
    ];
    for (const [text, why] of texts) {
      await Deno.writeTextFile(file, text);
      await fails(["keys", "add", file], why);
    }
    await Deno.writeTextFile(file, testKey("ed25519").line);
    await fails(["keys", "add", file, "--expires", "soon"], /expected a duration/);
  });
});

Deno.test("activity: followed until it is interrupted", async () => {
  await withServer(async ({ folder, svc }) => {
    const stop = new AbortController();
    const following = svc(["activity", "-f", "--output", "json"], stop.signal);
    await Deno.writeTextFile(`${folder}/k.pub`, testKey("ed25519").line);
    await svc(["auth", "keys", "add", `${folder}/k.pub`]);
    const seen = async () => (await svc(["activity"])).out !== "";
    while (!await seen()) await new Promise((resolve) => setTimeout(resolve, 20));
    stop.abort(Object.assign(new Error("interrupted"), { exitCode: 130 }));
    assert.equal((await following).code, 130);
  });
});
