/** `svc build` against a server with the engine on runc: what crosses the wire, and what comes of it. */
import assert from "node:assert/strict";
import { ATTACH_PATH, type AttachRequest } from "../../lib/api/build_session.ts";
import { createClient } from "../../lib/client/client.ts";
import { attach } from "../../lib/client/attached/attach.ts";
import { takesAll } from "../../lib/wire/attached/testing.ts";
import { writeLine } from "../../lib/wire/lines.ts";
import { readAll } from "../../lib/wire/testing.ts";
import type { YamuxStream } from "../../lib/wire/yamux/stream.ts";

import { type Fixture, good, outputOf, ran, test, topLayer } from "./attached_fixture.ts";

const MEGABYTE = crypto.getRandomValues(new Uint8Array(65536));
const large = (bytes: number) => {
  const data = new Uint8Array(bytes);
  for (let at = 0; at < bytes; at += MEGABYTE.length) {
    data.set(MEGABYTE.subarray(0, bytes - at), at);
  }
  return data;
};

test("only what steps copy crosses the wire, and only what changed does again", async (at) => {
  await at.write({
    Dockerfile: "FROM base\nCOPY app /app\n",
    "app/one": "one",
    "app/two": large(300_000),
    "app/sub/three": large(200_000),
    "app/secret": large(100_000),
    ".dockerignore": "app/secret\n",
    unread: large(20_000_000),
  });
  await Deno.symlink("../one", `${at.folder}/app/sub/link`);
  await Deno.chmod(`${at.folder}/app/one`, 0o755);
  const first = good(await at.svc([]));
  assert.equal(ran(first), 1);
  const contents = 500_003;
  assert.ok(first.received > contents && first.received < contents + 3000, `${first.received}`);
  assert.ok(first.wire > contents && first.wire < contents + 20_000, `${first.wire}`);
  const layer = await topLayer(at);
  assert.deepEqual([...layer.keys()].sort(), [
    "app",
    "app/one",
    "app/sub",
    "app/sub/link",
    "app/sub/three",
    "app/two",
  ]);
  assert.deepEqual([layer.get("app/one")!.text, layer.get("app/one")!.mode & 0o777], [
    "one",
    0o755,
  ]);
  assert.equal(layer.get("app/sub/link")!.linkpath, "../one");
  const again = await at.svc([]);
  assert.equal(ran(again), 0);
  // Not even the listing is sent again.
  assert.ok(again.received < 100 && again.wire < 3000, `${again.received} ${again.wire}`);
  await at.write({ "app/sub/three": large(1000) });
  const changed = await at.svc([]);
  assert.equal(ran(changed), 1);
  assert.ok(changed.received > 1000 && changed.received < 4000, `${changed.received}`);
  const after = await topLayer(at);
  assert.deepEqual([after.get("app/one")!.text, after.get("app/sub/three")!.size], ["one", 1000]);
});

test("named contexts, secrets and a Dockerfile from elsewhere", async (at) => {
  const other = await Deno.makeTempDir({ prefix: "svc-attached-" });
  try {
    await Deno.mkdir(`${other}/lib`);
    await Deno.writeTextFile(`${other}/lib/file`, "from the other");
    await Deno.writeTextFile(`${other}/hidden`, "hidden");
    await Deno.writeTextFile(`${other}/.dockerignore`, "hidden\n");
    await Deno.writeTextFile(`${other}/token`, "hush-hush");
    await Deno.writeTextFile(
      `${other}/Dockerfile`,
      [
        "FROM base",
        "COPY --from=other lib /lib",
        "COPY here /here",
        "RUN --mount=type=secret,id=token,required --mount=type=secret,id=word,env=WORD " +
        "wc -c < /run/secrets/token; test $WORD = open && cat /lib/file /here",
        "RUN --mount=type=bind,from=other,target=/o ls /o",
      ].join("\n"),
    );
    await at.write({ here: "and from here" });
    const built = good(
      await at.svc([
        "-f",
        `${other}/Dockerfile`,
        "--build-context",
        `other=${other}`,
        "--secret",
        `id=token,src=${other}/token`,
        "--secret",
        "id=word,env=WORD",
      ], { WORD: "open" }),
    );
    assert.equal(outputOf(built), "9\nfrom the otherand from hereDockerfile\nlib\ntoken\n");
    assert.ok(!JSON.stringify(built.events).includes("hush"));
    const missing = await at.svc(["--secret", "id=nowhere"], {});
    assert.equal(missing.code, 2);
    assert.match(missing.stderr, /secret nowhere nowhere: there is no such file/);
  } finally {
    await Deno.remove(other, { recursive: true });
  }
});

test("a context beyond the limit is refused, and the next build is none the worse", async (at) => {
  await at.write({ Dockerfile: "FROM base\nCOPY file /file\n", file: large(3000) });
  const refused = await at.svc([]);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /it has more than 1000 B/);
  await at.write({ file: "small" });
  assert.equal(ran(await at.svc([])), 1);
}, { limits: { buildConcurrency: 1, maxBuildContextBytes: 1000 } });

test("a lazy context of which 11 bytes are read sends 11 bytes and the protocol", async (at) => {
  const data = await Deno.makeTempDir({ prefix: "svc-attached-" });
  try {
    await Deno.mkdir(`${data}/deep`);
    await Deno.writeFile(`${data}/deep/large`, large(20_000_000));
    await Deno.writeTextFile(`${data}/deep/small`, "eleven ....");
    await Deno.symlink("deep/small", `${data}/link`);
    await at.write({
      Dockerfile: "FROM base\n" +
        "RUN --mount=type=bind,from=data,target=/d cat /d/link && ls -l /d/deep > /listed\n",
    });
    const args = ["--lazy", "--build-context", `data=${data}`];
    const first = await at.svc(args);
    assert.equal(ran(first), 1);
    assert.equal(outputOf(first), "eleven ....");
    assert.ok(first.wire > 11 && first.wire < 10_000, `${first.wire} bytes`);
    const again = await at.svc(args);
    assert.equal(ran(again), 0);
    await Deno.writeTextFile(`${data}/deep/small`, "others ....!");
    const changed = await at.svc(args);
    assert.deepEqual([ran(changed), outputOf(changed)], [1, "others ....!"]);
    // Without --lazy, or where it is written to, the whole of it is fetched first.
    const eager = await at.svc(args.slice(1));
    assert.equal(ran(eager), 1);
    assert.ok(eager.wire > 20_000_000, `${eager.wire} bytes`);
    await at.write({
      Dockerfile: "FROM base\nRUN --mount=type=bind,rw,from=data,target=/d/ " +
        "echo x >> /d/deep/small && cat /d/deep/small\n",
    });
    assert.equal(outputOf(good(await at.svc(args))), "others ....!x\n");
    assert.equal(await Deno.readTextFile(`${data}/deep/small`), "others ....!");
  } finally {
    await Deno.remove(data, { recursive: true });
  }
});

/** Answers the listing as it should be, and everything else as `answer` says. */
async function hostileCaller(
  at: Fixture,
  answer: (ask: string, stream: YamuxStream, socket: WebSocket) => void | Promise<void>,
): Promise<string> {
  const client = createClient({ server: at.base });
  let socket: WebSocket;
  const takes = takesAll(async (kind, stream) => {
    if (kind !== "list") return await answer(kind, stream, socket);
    const listing = [
      ["loop", "l", 0o777, 0, 0, 0, "s", "loop"],
      ["file", "f", 0o644, 5_000_000, 0, 0, "s"],
      ["small", "f", 0o644, 5, 0, 0, "s"],
      { end: 3 },
    ];
    for (const line of listing) await writeLine(stream, line);
  });
  // As one that does not know the question.
  delete takes.changes;
  const session = await attach(
    { ...client, socket: async (...args) => socket = await client.socket(...args) },
    ATTACH_PATH,
    { attempt: "test", takes },
  );
  try {
    const control = session.open("build");
    await writeLine(
      control,
      {
        query: "",
        context: { kind: "folder", identity: "h", dockerfile: at.dockerfile, ignore: "" },
      } satisfies AttachRequest,
    );
    return new TextDecoder().decode(await readAll(control)).trim().split("\n").at(-1)!;
  } catch (error) {
    return String(error);
  } finally {
    session[Symbol.dispose]();
  }
}

test("callers that vanish, talk rubbish or run in circles harm nobody else", async (at) => {
  const rubbish = new Uint8Array(4096).fill(0x5a);
  at.dockerfile = "FROM base\nCOPY file /\n";
  const honest = at.write({ Dockerfile: "FROM base\nCOPY f /f\n", f: "fine" });
  const answers: [RegExp, Parameters<typeof hostileCaller>[1]][] = [
    [/a message of \d+ bytes/, (_, stream) => stream.write(rubbish)],
    [/Cannot read|Cannot use/, (_, stream) => stream.reset()],
    [/connection was lost|other side/, (_, _stream, socket) => socket.close()],
    [/connection was lost|other side/, (_, _stream, socket) => socket.send(rubbish)],
  ];
  await honest;
  for (const [expected, answer] of answers) {
    const [ended, built] = await Promise.all([hostileCaller(at, answer), at.svc([])]);
    assert.match(ended, expected);
    good(built);
  }
  at.dockerfile = "FROM base\nCOPY small /\n";
  const small: [RegExp, Parameters<typeof hostileCaller>[1]][] = [
    [/in no order/, (_, stream) => stream.write(rubbish)],
    [/longer than what/, (_, stream) => stream.write(new Uint8Array([0, 0, 0, 0, 0, 0, 0, 7]))],
    [/became longer/, (_, stream) => stream.write(new Uint8Array(14).fill(6, 7, 8))],
    [/became shorter/, (_, stream) => stream.write(new Uint8Array(8))],
    [/too early/, (_, stream) => stream.closeWrite()],
  ];
  for (const [expected, answer] of small) assert.match(await hostileCaller(at, answer), expected);
  at.dockerfile = "FROM base\nCOPY loop /\n";
  assert.match(await hostileCaller(at, () => {}), /too many symbolic links|loop/);
});
