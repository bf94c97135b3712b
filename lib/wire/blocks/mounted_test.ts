/** A mount with `,async`, as programs use it. */
import assert from "node:assert/strict";
import { hasFuse } from "../../sys/fuse.ts";
import { canMount } from "../../sys/mount.ts";
import { mountFuse } from "../fuse/mount.ts";
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

async function mounted(
  name: string,
  work: (ends: Ends, at: string) => Promise<void>,
): Promise<void> {
  const at = await Deno.makeTempDir({ prefix: "svc-async-" });
  try {
    await using ends = await bothEnds(COHERENCES[name], { budget: new BlockBudget(20) });
    await using _mount = mountFuse(at, ends.root, { writable: true, keepMs: 50 });
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
          said("sqlite3", "-cmd", ".timeout 30000", `${place}/db`, text);
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
