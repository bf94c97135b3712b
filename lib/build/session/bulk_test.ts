import assert from "node:assert/strict";
import { BULK, FILE_FAILED } from "../../api/build_session.ts";
import { sendFiles } from "../../client/build_files.ts";
import type { Duplex } from "../../wire/duplex.ts";
import { LineReader } from "../../wire/lines.ts";
import { ConfinedFolder } from "../../wire/files/folder.ts";
import { duplexPair, pattern, yamuxPair } from "../../wire/testing.ts";
import { readBulk } from "./bulk.ts";

type Wanted = { path: string; size: number };

/** Contents as text, or what failed. */
async function read(stream: Duplex, files: Wanted[]): Promise<string[] | string> {
  const found: string[] = [];
  try {
    const contents = readBulk(stream, files, {
      onBytes: () => {},
      failed: (what) => new Error(what),
    });
    for await (const some of contents) {
      for (const bytes of some) found.push(new TextDecoder().decode(bytes));
    }
    return found;
  } catch (error) {
    return (error as Error).message;
  }
}

function frame(index: number, content: string | { errno: number }): Uint8Array {
  const bytes = new TextEncoder().encode(typeof content === "string" ? content : "....");
  const whole = new Uint8Array(BULK.header + bytes.length);
  const view = new DataView(whole.buffer);
  view.setUint32(0, index);
  view.setUint32(4, typeof content === "string" ? bytes.length : FILE_FAILED);
  whole.set(bytes, BULK.header);
  if (typeof content !== "string") view.setUint32(BULK.header, content.errno);
  return whole;
}

const FILES = [{ path: "a", size: 3 }, { path: "b", size: 0 }, { path: "c", size: 5 }];

/** Answers the bytes whatever is asked, in pieces of so many, and ends. */
function answered(frames: Uint8Array[], size = 1 << 20): Duplex {
  const [here, there] = duplexPair();
  for (const one of frames) {
    for (let at = 0; at < one.length; at += size) there.write(one.subarray(at, at + size));
  }
  there.closeWrite();
  return here;
}

Deno.test("files in bulk: contents come in order, whatever the pieces", async () => {
  const frames = [frame(0, "one"), frame(1, ""), frame(2, "three")];
  for (const size of [1, 2, 3, 7, 8, 9, 11, 100]) {
    assert.deepEqual(await read(answered(frames, size), FILES), ["one", "", "three"]);
  }
  const together = new Uint8Array(await new Blob(frames as BlobPart[]).arrayBuffer());
  assert.deepEqual(await read(answered([together]), FILES), ["one", "", "three"]);
  // What changed is the reader's to judge: shorter, or one byte longer.
  const changed = [frame(0, "on"), frame(1, "x"), frame(2, "three!")];
  assert.deepEqual(await read(answered(changed), FILES), ["on", "x", "three!"]);
});

Deno.test("files in bulk: answers that make no sense are refused", async () => {
  const huge = frame(0, "one");
  new DataView(huge.buffer).setUint32(4, FILE_FAILED - 1);
  const cases: [RegExp, Uint8Array[]][] = [
    [/in no order/, [frame(1, ""), frame(0, "one")]],
    [/in no order/, [frame(0, "one"), frame(0, "one")]],
    [/longer than what was asked for/, [frame(0, "five.")]],
    [/longer than what was asked for/, [huge]],
    [/end too early/, []],
    [/end too early/, [frame(0, "one")]],
    [/end too early/, [frame(0, "one").subarray(0, 10)]],
    [/b could not be read \(error 13\)/, [frame(0, "one"), frame(1, { errno: 13 })]],
    [/more comes than/, [
      new Uint8Array([...frame(0, "one"), ...frame(1, ""), ...frame(2, "three"), 0]),
    ]],
  ];
  for (const [expected, frames] of cases) {
    const result = await read(answered(frames), FILES);
    assert.match(String(result), expected);
  }
});

Deno.test("files in bulk: a caller without end is not listened to, one that resets fails", async () => {
  using pair = yamuxPair({
    client: {
      onStream: (stream) =>
        void (async () => {
          for (;;) await stream.write(frame(0, "one"));
        })().catch(() => {/* the server hung up */}),
    },
  });
  const stream = pair.server.open();
  assert.match(String(await read(stream, FILES)), /in no order/);
  stream.reset();
  using other = yamuxPair({ client: { onStream: (stream) => stream.reset() } });
  assert.match(String(await read(other.server.open(), FILES)), /reset/);
});

interface Folder extends AsyncDisposable {
  root: string;
  outside: string;
  read(files: Wanted[]): Promise<string[] | string>;
}

/** What {@linkcode sendFiles} gives of a folder. */
async function open(visible?: (path: string) => boolean): Promise<Folder> {
  const base = await Deno.realPath(await Deno.makeTempDir({ prefix: "svc-bulk-" }));
  const [root, outside] = [`${base}/root`, `${base}/outside`];
  await Deno.mkdir(root);
  await Deno.mkdir(outside);
  await Deno.writeTextFile(`${outside}/secret`, "OUTSIDE");
  const folder = new ConfinedFolder(root, { visible });
  return {
    root,
    outside,
    async read(files) {
      using pair = yamuxPair({
        client: {
          onStream: (stream) =>
            void sendFiles(folder, new LineReader(stream), stream)
              .then(() => stream.closeWrite(), () => stream.reset()),
        },
      });
      return await read(pair.server.open(), files);
    },
    async [Symbol.asyncDispose]() {
      folder[Symbol.dispose]();
      await Deno.remove(base, { recursive: true });
    },
  };
}

Deno.test("files in bulk: many batches of a folder's files, large and small", async () => {
  await using at = await open();
  const files: Wanted[] = [];
  const expected: string[] = [];
  for (let number = 0; number < 3 * BULK.files; number++) {
    const folder = ["", "a/", "b/c/"][number % 3];
    const text = number % 100 === 7 ? "x".repeat(65_000 + number) : `file ${number}`;
    const path = `${folder}${number}`;
    if (folder !== "") await Deno.mkdir(`${at.root}/${folder}`, { recursive: true });
    await Deno.writeTextFile(`${at.root}/${path}`, text);
    files.push({ path, size: text.length });
    expected.push(text);
  }
  files.sort((a, b) => a.path < b.path ? -1 : 1);
  const found = await at.read(files);
  assert.ok(Array.isArray(found), String(found));
  assert.deepEqual(found.toSorted(), expected.toSorted());
  for (const [index, { path }] of files.entries()) {
    assert.equal(found[index], await Deno.readTextFile(`${at.root}/${path}`));
  }
});

Deno.test({
  name: "files in bulk: nothing but the folder's own files is sent",
  ignore: Deno.build.os === "windows",
  fn: async () => {
    await using at = await open((path) => path !== "hidden" && !path.startsWith("below"));
    await Deno.writeTextFile(`${at.root}/plain`, "plain");
    await Deno.writeTextFile(`${at.root}/hidden`, "hidden");
    await Deno.mkdir(`${at.root}/below`);
    await Deno.writeTextFile(`${at.root}/below/file`, "hidden");
    await Deno.symlink("../outside/secret", `${at.root}/link`);
    await Deno.symlink("../outside", `${at.root}/folder`);
    const refused = [
      "link",
      "folder/secret",
      "../outside/secret",
      `${at.outside}/secret`,
      "./plain",
      "",
      "/",
      "a//b",
      "hidden",
      "below",
      "below/file",
      "missing",
      "missing/file",
    ];
    for (const path of refused) {
      const result = await at.read([{ path: "plain", size: 5 }, { path, size: 100 }]);
      assert.match(String(result), /could not be read \(error \d+\)/, path);
    }
    // Sizes as they are now: one more byte tells that a file grew.
    const sizes = [{ path: "plain", size: 3 }, { path: "plain", size: 5 }, {
      path: "plain",
      size: 9,
    }];
    assert.deepEqual(await at.read(sizes), ["plai", "plain", "plain"]);
  },
});

Deno.test({
  name: "files in bulk: a folder exchanged for a link while it is read leads nowhere",
  ignore: Deno.build.os === "windows",
  fn: async () => {
    await using at = await open();
    const script = 'cd "$1" && while test -e ../go; do ln -sfn ../outside x; rm x; mkdir -p x; ' +
      "echo inside > x/secret; rm -r x; done 2>/dev/null";
    await Deno.writeTextFile(`${at.root}/../go`, "");
    const swapper = new Deno.Command("sh", { args: ["-c", script, "sh", at.root] }).spawn();
    try {
      let inside = 0;
      for (let turn = 0; turn < 1500 || inside === 0; turn++) {
        const result = await at.read(Array(1 + turn % 4).fill({ path: "x/secret", size: 20 }));
        assert.ok(!String(result).includes("OUTSIDE"), `${result}`);
        if (result.includes("inside\n")) inside++;
        else assert.ok(Array.isArray(result) || /could not be read/.test(result), `${result}`);
      }
    } finally {
      // Killed, it would leave a command of its own at work in what is removed next.
      await Deno.remove(`${at.root}/../go`);
      await swapper.status;
    }
  },
});

Deno.test("files in bulk: questions that cannot be are not answered", async () => {
  const root = await Deno.makeTempDir({ prefix: "svc-bulk-" });
  try {
    await Deno.writeFile(`${root}/file`, pattern(100));
    using folder = new ConfinedFolder(root);
    const questions: unknown[] = [
      null,
      {},
      [["file", -1]],
      [["file", 0.5]],
      [["file", BULK.bytes + 1]],
      [[7, 7]],
      ["file"],
      Array(BULK.files + 1).fill(["file", 1]),
    ];
    for (const question of questions) {
      const [here, there] = duplexPair();
      await here.write(new TextEncoder().encode(JSON.stringify(question) + "\n"));
      await here.closeWrite();
      await assert.rejects(
        sendFiles(folder, new LineReader(there), there),
        /not readable/,
        JSON.stringify(question)?.slice(0, 100),
      );
    }
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});
