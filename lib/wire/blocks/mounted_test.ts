/** A mount with `,async`, as programs use it. */
import assert from "node:assert/strict";
import { hasFuse } from "../../sys/fuse.ts";
import { canMount } from "../../sys/mount.ts";
import { Waking } from "../known/waking.ts";
import { type MountedFuse, mountFuse } from "../fuse/mount.ts";
import { SEED } from "../testing.ts";
import { BlockBudget } from "./budget.ts";
import { bothEnds, COHERENCES, type Ends } from "./testing.ts";

const PROGRAM = new URL("../../../test/fixtures/random_file_calls.ts", import.meta.url).pathname;
const COUNT = 1200;
const MOUNTS = hasFuse() && canMount();

const has = (program: string) =>
  new Deno.Command(program, { args: ["--version"] }).output().then(
    ({ success }) => success,
    () => false,
  );
const SQLITE = await has("sqlite3");

async function said(program: string, ...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await new Deno.Command(program, { args }).output();
  assert.equal(code, 0, new TextDecoder().decode(stderr) + new TextDecoder().decode(stdout));
  return new TextDecoder().decode(stdout).trim();
}

function mountedAt(at: string, { root, tree }: Ends): MountedFuse {
  const mount = mountFuse(at, root, { writable: true, keepMs: 50, flocks: true });
  tree.heard = new Waking(tree, mount, at);
  return mount;
}

async function mounted(
  name: string,
  work: (ends: Ends, at: string) => Promise<void>,
): Promise<void> {
  const at = await Deno.makeTempDir({ prefix: "svc-async-" });
  try {
    await using ends = await bothEnds(COHERENCES[name], { budget: new BlockBudget(20) });
    await using _mount = mountedAt(at, ends);
    await work(ends, at);
    assert.equal(ends.told(), 0);
  } finally {
    await Deno.remove(at);
  }
}

for (const name of ["classic", "subfill, defer, 64k ahead"]) {
  Deno.test({
    name: `blocks, ${name}: ${COUNT} random operations as on a local folder`,
    ignore: !MOUNTS,
    fn: () =>
      mounted(name, async (_ends, at) => {
        const local = await Deno.makeTempDir({ prefix: "svc-local-" });
        const args = ["run", "-A", "--no-lock", "--no-config", PROGRAM];
        const run = async (folder: string) => {
          await Deno.mkdir(folder);
          const lines = await said(Deno.execPath(), ...args, folder, `${SEED + 7}`, `${COUNT}`);
          return lines.split("\n");
        };
        try {
          const [found, want] = await Promise.all([run(`${at}/1`), run(`${local}/1`)]);
          const differing = want.findIndex((line, index) => line !== found[index]);
          const from = Math.max(0, differing - 2);
          assert.deepEqual(found.slice(from, from + 8), want.slice(from, from + 8));
          assert.equal(found.length, want.length);
        } finally {
          await Deno.remove(local, { recursive: true });
        }
      }),
  });

  Deno.test({
    name: `blocks, ${name}: sqlite on both sides at once${SQLITE ? "" : " (needs sqlite3)"}`,
    ignore: !MOUNTS || !SQLITE,
    fn: () =>
      mounted(name, async ({ folder }, at) => {
        const sql = (place: string, text: string) =>
          said("sqlite3", "-cmd", ".log stderr", "-cmd", ".timeout 300000", `${place}/db`, text);
        await sql(at, "create table t(n, who)");
        const writer = async (place: string) => {
          for (let n = 0; n < 10; n++) await sql(place, `insert into t values(${n}, '${place}')`);
        };
        await Promise.all([writer(at), writer(folder), writer(at)]);
        for (const place of [at, folder]) {
          const text = await sql(place, "select count(*) from t; pragma integrity_check");
          assert.equal(text, "30\nok", place);
        }
      }),
  });
}

const TURNS = Deno.env.get("SVC_TEST_CUTS") === "1" ? 60 : 5;

/** Transactions without end, each acknowledged by a line. */
function transactions(db: string): { process: Deno.ChildProcess; acknowledged: () => number } {
  const process = new Deno.Command("sqlite3", {
    args: ["-bail", db],
    ...{ stdin: "piped", stdout: "piped", stderr: "null" },
  }).spawn();
  const script = Array.from(
    { length: 5000 },
    (_, n) => `insert into t values(${n + 1}, randomblob(${n * 377 % 9000})); select 'done';`,
  );
  const begin = "pragma journal_mode=wal; pragma wal_autocheckpoint=9; pragma cache_size=10; " +
    "create table t(n integer primary key, b);";
  const writer = process.stdin.getWriter();
  const text = new TextEncoder().encode(`${begin}\n${script.join("\n")}`);
  writer.write(text).then(() => writer.close()).catch(() => {/* it has ended */});
  let lines = 0;
  void (async () => {
    for await (const text of process.stdout.pipeThrough(new TextDecoderStream())) {
      lines += text.split("done").length - 1;
    }
  })();
  return { process, acknowledged: () => lines };
}

Deno.test({
  name: "blocks: sqlite (wal) under a connection that is cut ends, and so does the mount" +
    (SQLITE ? "" : " (needs sqlite3)"),
  ignore: !MOUNTS || !SQLITE,
  fn: async () => {
    const options = Object.values(COHERENCES).reverse();
    for (let turn = 0; turn < TURNS; turn++) {
      const [at, folder] = [await Deno.makeTempDir(), await Deno.makeTempDir()];
      const delay = () => Math.random() * 3;
      const ends = await bothEnds(options[turn % options.length], { folder, delay });
      const mount = mountedAt(at, ends);
      const { process, acknowledged } = transactions(`${at}/db`);
      while (acknowledged() < 3 + turn % 7) await new Promise((resolve) => setTimeout(resolve, 5));
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 100));
      ends.cut();
      // It would go on trying for ten seconds by itself. What it has asked for is answered all the same: the end of
      // the mount waits for that.
      await new Promise((resolve) => setTimeout(resolve, 30));
      try {
        process.kill("SIGKILL");
      } catch {
        // It has ended.
      }
      let late: ReturnType<typeof setTimeout>;
      const never = new Promise<never>((_, reject) => {
        late = setTimeout(() => reject(new Error(`turn ${turn}: a call waits for ever`)), 60_000);
      });
      const ended = (async () => {
        await process.status;
        await mount[Symbol.asyncDispose]();
        await ends[Symbol.asyncDispose]();
      })();
      await Promise.race([ended, never]).finally(() => clearTimeout(late));
      const counted = "pragma integrity_check; select count(*) = max(n), count(*) from t";
      const [whole, counts] = (await said("sqlite3", `${folder}/db`, counted)).split("\n");
      assert.equal(whole, "ok", `turn ${turn}`);
      const [contiguous, count] = counts.split("|").map(Number);
      assert.equal(contiguous, 1);
      assert.ok(
        count >= acknowledged(),
        `turn ${turn}: ${acknowledged()} acknowledged, ${count} there`,
      );
      for (const path of [at, folder]) await Deno.remove(path, { recursive: true });
    }
  },
});
