/**
 * sqlite on a mount with `,async`, cut at each block write: what is in the caller's folder at that moment is a
 * database with every transaction that was acknowledged by then, and with all before each that it has.
 * SVC_TEST_CUTS=1: at all of them, with all options; else at some, with two.
 */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { hasFuse } from "../../sys/fuse.ts";
import { canMount } from "../../sys/mount.ts";
import { mountFuse } from "../fuse/mount.ts";
import { type GuardedFile, Guards } from "./guards.ts";
import type { BlockOptions } from "./protocol.ts";
import { bothEnds, COHERENCES } from "./testing.ts";

const ALL = Deno.env.get("SVC_TEST_CUTS") === "1";
const MOST_CUTS = ALL ? Infinity : 40;
const TRANSACTIONS = ALL ? 60 : 15;
const CHOSEN = ALL ? Object.keys(COHERENCES) : ["classic", "subfill, defer, 64k ahead"];

/** The folder at one moment, and how many transactions were acknowledged by then. */
interface Cut {
  files: Map<string, Uint8Array>;
  acknowledged: number;
}

/** Tells of each half of a write, and of each cut of a file. */
class CutGuards extends Guards {
  constructor(readonly onCut: () => void, onRefused: () => void) {
    super(onRefused);
  }

  override of(file: GuardedFile) {
    const { onCut } = this;
    return super.of({
      id: file.id,
      stat: () => file.stat(),
      read: (offset, into) => file.read(offset, into),
      sync: (dataOnly) => file.sync(dataOnly),
      async write(offset, bytes) {
        const half = Math.ceil(bytes.length / 2);
        let done = await file.write(offset, bytes.slice(0, half));
        onCut();
        if (half < bytes.length) done += await file.write(offset + half, bytes.slice(half));
        onCut();
        return done;
      },
      async truncate(size) {
        await file.truncate(size);
        onCut();
      },
    });
  }
}

function folderNow(folder: string): Cut["files"] {
  const files = new Map<string, Uint8Array>();
  for (const { name } of Deno.readDirSync(folder)) {
    files.set(name, Deno.readFileSync(`${folder}/${name}`));
  }
  return files;
}

function script(journal: string): string {
  const transactions = Array.from(
    { length: TRANSACTIONS },
    (_, n) =>
      `begin; insert into t values(${n + 1}, randomblob(${300 + n * 377 % 9000}));
     update t set b = randomblob(600) where n % 7 = ${n % 7}; commit; select 'done';`,
  );
  return `pragma journal_mode=${journal}; pragma cache_size=10; pragma wal_autocheckpoint=9;
    create table t(n integer primary key, b); select 'ready';\n${transactions.join("\n")}`;
}

/** Runs the transactions, and keeps the folder at each cut. */
async function run(journal: string, options: BlockOptions): Promise<Cut[]> {
  const at = await Deno.makeTempDir({ prefix: "svc-cuts-" });
  const cuts: Cut[] = [];
  let acknowledged = 0;
  let folder: string | undefined;
  const onCut = () => void (folder && cuts.push({ files: folderNow(folder), acknowledged }));
  try {
    await using ends = await bothEnds(options, { guards: (told) => new CutGuards(onCut, told) });
    await using _mounted = mountFuse(at, ends.root, { writable: true, keepMs: 50 });
    const child = new Deno.Command("sqlite3", {
      args: [`${at}/db`],
      ...{ stdin: "piped", stdout: "piped", stderr: "inherit" },
    }).spawn();
    const writer = child.stdin.getWriter();
    void writer.write(new TextEncoder().encode(script(journal))).then(() => writer.close());
    for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
      if (text.includes("ready")) folder = ends.folder;
      acknowledged += text.split("done").length - 1;
    }
    assert.equal((await child.status).code, 0);
    assert.equal(acknowledged, TRANSACTIONS);
    assert.equal(ends.told(), 0);
    return cuts;
  } finally {
    await Deno.remove(at);
  }
}

function check(at: string, { files, acknowledged }: Cut, what: string): void {
  Deno.mkdirSync(at);
  for (const [name, bytes] of files) Deno.writeFileSync(`${at}/${name}`, bytes);
  const db = new DatabaseSync(`${at}/db`);
  try {
    const [row] = db.prepare("pragma integrity_check").all();
    assert.deepEqual({ ...row }, { integrity_check: "ok" }, what);
    const { count, last } = db.prepare("select count(*) count, max(n) last from t").get() as {
      count: number;
      last: number | null;
    };
    assert.equal(count, last ?? 0, what);
    assert.ok(
      count >= acknowledged,
      `${what}: ${acknowledged} were acknowledged, ${count} are there`,
    );
  } finally {
    db.close();
  }
}

const hasSqlite = await new Deno.Command("sqlite3", { args: ["--version"] }).output()
  .then(({ success }) => success, () => false);

for (const name of CHOSEN) {
  for (const journal of ["delete", "wal"]) {
    Deno.test({
      name: `blocks, ${name}: sqlite (${journal}) is whole wherever its writes are cut off` +
        (hasSqlite ? "" : " (needs sqlite3)"),
      ignore: !hasFuse() || !canMount() || !hasSqlite,
      fn: async () => {
        const cuts = await run(journal, COHERENCES[name]);
        assert.ok(cuts.length > TRANSACTIONS, `${cuts.length} cuts`);
        const step = Math.max(1, Math.floor(cuts.length / MOST_CUTS));
        const base = await Deno.makeTempDir({ prefix: "svc-cut-" });
        try {
          for (let n = 0; n < cuts.length; n += step) {
            check(`${base}/${n}`, cuts[n], `cut ${n} of ${cuts.length}`);
          }
        } finally {
          await Deno.remove(base, { recursive: true });
        }
      },
    });
  }
}
