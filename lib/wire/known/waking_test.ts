/** Programs that wait for changes in a mount are woken by changes of the folder that is mounted. */
import assert from "node:assert/strict";
import { callOnce, cbytes } from "../../sys/system_call.ts";
import { AheadBlocks } from "../blocks/ahead_blocks.ts";
import { mountTest, run } from "../fuse/testing.ts";
import type { KnownTree } from "./tree.ts";
import { Waking } from "./waking.ts";

const PATIENCE_MS = 120_000;
const CALLS = new URL("../../sys/system_call.ts", import.meta.url).href;

/** Watches a folder and prints the events, as inotifywait does. */
const WATCH = `
import { callHere, callOnce, cbytes } from "${CALLS}";
const BITS = { 2: "modify", 4: "attrib", 8: "close_write", 0x100: "create", 0x200: "delete", 0x400: "delete_self" };
const fd = callHere("inotify_init1", 0);
for (const path of Deno.args) callHere("inotify_add_watch", fd, cbytes(path), 0x70e);
console.log("ready");
const buffer = new Uint8Array(new ArrayBuffer(65536));
const view = new DataView(buffer.buffer);
for (;;) {
  const size = await callOnce("read", fd, buffer, buffer.length);
  for (let at = 0; at < size; at += 16 + view.getUint32(at + 12, true)) {
    const length = view.getUint32(at + 12, true);
    const name = new TextDecoder().decode(buffer.subarray(at + 16, at + 16 + length)).replace(/\\0+/, "");
    console.log((name || ".") + " " + BITS[view.getUint32(at + 4, true) & 0xffff]);
  }
}
`;

async function watched(
  mounted: { beside: string },
  paths: string[],
  work: (heard: string[], until: (line: string) => Promise<void>) => Promise<void>,
): Promise<void> {
  await Deno.writeTextFile(`${mounted.beside}/watch.ts`, WATCH);
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-lock", `${mounted.beside}/watch.ts`, ...paths],
    stdout: "piped",
    stdin: "null",
  }).spawn();
  const heard: string[] = [];
  let more = Promise.withResolvers<void>();
  const reading = (async () => {
    let rest = "";
    for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
      const lines = (rest + text).split("\n");
      rest = lines.pop()!;
      heard.push(...lines);
      more.resolve();
      more = Promise.withResolvers();
    }
  })();
  const late = AbortSignal.timeout(PATIENCE_MS);
  const until = async (line: string) => {
    while (!heard.includes(line)) {
      if (late.aborted) assert.fail(`no ${line} in ${heard}`);
      await Promise.race([more.promise, new Promise((resolve) => setTimeout(resolve, 100))]);
    }
  };
  try {
    await until("ready");
    await work(heard, until);
  } finally {
    child.kill("SIGKILL");
    await child.status;
    await reading;
  }
}

for (const [kind, ahead] of [["", undefined], [", async", () => new AheadBlocks({})]] as const) {
  mountTest(`changes outside wake who waits for them${kind}`, [], async (mounted) => {
    const { folder, at, beside } = mounted;
    await run(mounted, "mkdir $F/sub; echo one > $F/file; echo one > $F/sub/deep; ls -l $M $M/sub");
    await watched({ beside }, [at, `${at}/sub`], async (heard, until) => {
      await Deno.writeTextFile(`${folder}/file`, "two");
      await until("file modify");
      await until("file close_write");
      await Deno.writeTextFile(`${folder}/sub/deep`, "two");
      await until("deep modify");
      await Deno.chmod(`${folder}/file`, 0o600);
      await until("file attrib");
      await Deno.writeTextFile(`${folder}/made`, "");
      await until("made create");
      await Deno.mkdir(`${folder}/folder`);
      await until("folder create");
      await Deno.symlink("file", `${folder}/link`);
      await until("link create");
      await Deno.rename(`${folder}/made`, `${folder}/file`);
      await until("made delete");
      await until("file delete");
      await until("file create");
      await Deno.remove(`${folder}/folder`);
      await until("folder delete");
      assert.equal(
        await run(mounted, "ls $M; cat $M/file; stat -c %a $F/file"),
        "file\nlink\nsub\n644",
      );
      assert.ok(!heard.includes("sub delete"));
    });
  }, { ahead });
}

mountTest("waking somebody changes nothing, whatever is in the way", [], async (mounted) => {
  const { folder, at, beside, mount } = mounted;
  await run(mounted, "echo a > $F/a; echo b > $F/b; echo x > $B/x; ln -s $B $F/away; ls -l $M");
  const inode = async (path: string) => BigInt((await Deno.lstat(path)).ino!);
  const a = { folder: await inode(folder), name: "a", id: await inode(`${folder}/a`) };
  const calls = async () => {
    const results = [
      await callOnce("unlinkat", -1, cbytes(`${at}/b`), 0),
      await callOnce("mkdirat", -1, cbytes(`${at}/new`), 0o700),
      await callOnce("truncate", cbytes(`${at}/b`), 0),
      await callOnce("renameat2", -1, cbytes(`${at}/b`), -1, cbytes(`${at}/c`), 0),
    ];
    assert.ok(results.every((result) => result < 0), `${results}`);
  };
  const lives = () => true;
  await mount.replay({ ...a, what: "remove", kind: "file", lives }, calls);
  // A path that leads out of the mount, as when the workload puts a link in the place of a folder.
  const waking = new Waking({ path: () => "away", lives } as unknown as KnownTree, mount, at);
  const x = { id: await inode(`${beside}/x`), kind: "file" } as const;
  await waking.changed({ folder: 1n, name: "x", before: x, what: "entry" });
  await waking.changed({ folder: 1n, name: "y", after: x, what: "entry" });
  await waking.idle;
  assert.equal(
    await run(mounted, "cat $B/x $F/a $F/b; ls $B $F"),
    await run(
      mounted,
      "printf 'x\\na\\nb\\n'; printf '%s:\\nx\\n\\n%s:\\na\\naway\\nb\\n' $B $F",
    ),
  );
});

mountTest("node --watch starts again when its program changes", ["node"], async (mounted) => {
  const { folder, at } = mounted;
  const program = (word: string) =>
    Deno.writeTextFile(`${folder}/app.js`, `console.log("${word}"); setInterval(() => {}, 1000);`);
  await program("first");
  // It may print before it watches its program: that is changed until it has seen it.
  let changing: ReturnType<typeof setTimeout> | undefined;
  const change = (againMs: number) => {
    void program("second");
    // Not sooner than it may take to start again.
    changing = setTimeout(change, againMs, 2 * againMs);
  };
  const child = new Deno.Command("node", {
    args: ["--watch", `${at}/app.js`],
    stdout: "piped",
    stdin: "null",
    stderr: "null",
  }).spawn();
  try {
    let said = "";
    for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
      said += text;
      if (said.includes("second")) break;
      if (said.includes("first") && changing === undefined) change(1000);
    }
    assert.match(said, /second/);
  } finally {
    clearTimeout(changing);
    // Its program ends with it.
    child.kill("SIGTERM");
    await child.status;
  }
});
