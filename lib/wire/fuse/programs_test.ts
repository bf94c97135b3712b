/** A folder over our own 9P server and client, mounted, as programs use it. */
import assert from "node:assert/strict";
import { mountTest as test, run } from "./testing.ts";

const SUMS = "find . -type f -print0 | sort -z | xargs -0 sha256sum";
const FACTS = "find . -mindepth 1 -printf '%p %y %m %s %T@ %l\\n' | grep -v ' d ' | sort";

test("tar, cp -a, mv and rm -rf", ["tar", "cp"], async (mounted) => {
  await run(
    mounted,
    `cd $B; mkdir -p tree/a/b/c; cd tree
    for n in $(seq 300); do echo "file $n" > a/b/f$n; done
    head -c 3000000 /dev/urandom > a/large; ln -s ../large a/b/link; ln -s /nowhere dangling
    chmod 750 a/b; chmod 400 a/b/f1; touch -d '2001-02-03 04:05:06.789' a/b/f2; ln a/b/f3 a/hard
    tar -H pax -cf ../tree.tar .`,
  );
  const want = await run(mounted, `cd $B/tree; ${SUMS}; ${FACTS}`);
  await run(mounted, `mkdir $M/tree; cd $M/tree; tar -xpf $B/tree.tar`);
  assert.equal(await run(mounted, `cd $M/tree; ${SUMS}; ${FACTS}`), want, "unpacked");
  assert.equal(await run(mounted, `cd $F/tree; ${SUMS}; ${FACTS}`), want, "on the disk");
  assert.equal(await run(mounted, `stat -c %h $F/tree/a/hard`), "2");
  await run(mounted, `cp -a $M/tree $M/copy; mv $M/copy $M/moved`);
  assert.equal(await run(mounted, `cd $M/moved; ${SUMS}; ${FACTS}`), want, "copied and moved");
  await run(mounted, `cd $M/moved; tar -H pax -cf - . | (mkdir $B/back; cd $B/back; tar -xpf -)`);
  assert.equal(await run(mounted, `cd $B/back; ${SUMS}; ${FACTS}`), want, "packed");
  await run(mounted, `mv $M/tree $B/out; mv $B/out $M/in; rm -rf $M/in $M/moved`);
  assert.equal(await run(mounted, `ls -A $F`), "");
});

test("git makes, commits, packs and checks out", ["git"], async (mounted) => {
  const out = await run(
    mounted,
    `cd $M; git init -q -b main; git config user.name n
    git config user.email e@x; for n in $(seq 200); do echo "line $n" > f$n; done
    mkdir -p deep/er; echo x > deep/er/file; ln -s f1 link; chmod 755 f2
    git add -A; git commit -q -m one; git status --porcelain
    echo more >> f7; rm f8; git mv f9 nine; git status --porcelain; git add -A; git commit -q -m two
    git gc -q; git checkout -q HEAD~1; git status --porcelain; git checkout -q main
    git stash list; git fsck --strict; git log --format=%s; git status --porcelain`,
  );
  assert.deepEqual(out.split("\n"), ["M f7", " D f8", "R  f9 -> nine", "two", "one"]);
  assert.equal(
    await run(mounted, `cd $F; git -c safe.directory='*' status --porcelain; cat nine`),
    "line 9",
  );
});

test(
  "sqlite: transactions by two at once, with a log of its own and without",
  ["sqlite3"],
  async (mounted) => {
    for (const mode of ["delete", "wal"]) {
      const file = `$M/${mode}.db`;
      await run(mounted, `sqlite3 ${file} 'pragma journal_mode=${mode}; create table t(n, who)'`);
      const writer = (who: string) =>
        run(
          mounted,
          `for n in $(seq 12); do
        sqlite3 -cmd '.timeout 300000' ${file} "insert into t values($n, '${who}')"; done`,
        );
      await Promise.all([writer("a"), writer("b")]);
      const counted = await run(
        mounted,
        `sqlite3 ${file} 'select count(*), count(distinct n || who) from t
      union all select 0, 0; pragma integrity_check'`,
      );
      assert.deepEqual(counted.split("\n").sort(), ["0|0", "24|24", "ok"], mode);
      assert.equal(await run(mounted, `sqlite3 $F/${mode}.db 'pragma integrity_check'`), "ok");
    }
  },
);

test(
  "dd, truncate, append, holes and what was removed while it was open",
  ["dd"],
  async (mounted) => {
    await run(
      mounted,
      `cd $M; head -c 5000000 /dev/urandom > $B/random
    dd if=$B/random of=copy bs=64k status=none conv=fsync; cmp copy $B/random; cmp $F/copy $B/random
    dd if=$B/random of=copy bs=1000 skip=3 seek=7 count=9 conv=notrunc status=none
    dd if=$B/random of=$B/same bs=64k status=none
    dd if=$B/random of=$B/same bs=1000 skip=3 seek=7 count=9 conv=notrunc status=none; cmp copy $B/same
    truncate -s 10 copy; test $(stat -c %s $F/copy) = 10
    truncate -s 100000000 sparse; test $(stat -c %b $F/sparse) -lt 1000; rm sparse
    for n in $(seq 50); do (echo line $n >> log) & done; wait; test $(sort -u log | wc -l) = 50
    exec 5> open; rm open; echo still >&5; test ! -e open; exec 5>&-
    mkfifo pipe; (echo through > pipe) & test "$(cat pipe)" = through; wait; rm pipe
    echo kept > a; echo new > b; exec 6< a; mv b a; test "$(cat <&6)" = kept; test "$(cat a)" = new
    test "$(flock a echo locked)" = locked; df . > /dev/null; sync copy`,
    );
    assert.match(
      await run(mounted, `cd $M; mknod null c 1 3 2>&1 || true; ls -A`),
      /not permitted/,
    );
    const links = await run(
      mounted,
      `cd $M; chown 1234 a 2>&1 || true; chmod 4755 a; stat -c %a $F/a`,
    );
    assert.match(links, /not permitted[^]*\n755$/);
  },
);

/** `soon WORDS`: waits for a minute or two until the shell finds them true. */
const SOON = 'soon() { for _ in $(seq 4000); do if eval "$1"; then return; fi; sleep 0.02; done; ' +
  'echo "never: $1" >&2; return 1; }';

test("what changes on the other side is seen", [], async (mounted) => {
  await run(
    mounted,
    `${SOON}; cd $M; echo one > $F/file; cat file > /dev/null; echo longer > $F/file
    soon 'test "$(cat file)" = longer'; rm $F/file; soon 'test ! -e file'
    mkdir $F/new; soon 'test -d new'; soon 'test "$(ls)" = new'`,
  );
});

const sys = (name: string) => new URL(`../../sys/${name}.ts`, import.meta.url).href;

const XATTRS = `
import { callElsewhere, cbytes } from "${sys("system_call")}";
import { getXattr, listXattrs, setXattr } from "${sys("xattr")}";
const [path] = Deno.args;
setXattr(path, "user.mine", new TextEncoder().encode("value"));
setXattr(path, "user.other", new Uint8Array(2000));
await callElsewhere("removexattr", cbytes(path), cbytes("user.other"));
let refused = "";
try { setXattr(path, "trusted.x", new Uint8Array(1)); } catch (error) { refused = error.code; }
const value = getXattr(path, "user.mine");
console.log(listXattrs(path).join(), new TextDecoder().decode(value), refused);
`;

test("attributes, and names that are no text", [], async (mounted) => {
  await Deno.writeTextFile(`${mounted.beside}/xattrs.ts`, XATTRS);
  const said = await run(
    mounted,
    `echo x > $M/f; ${Deno.execPath()} run -A --no-lock $B/xattrs.ts $M/f`,
  );
  assert.equal(said, "user.mine value EOPNOTSUPP");
  await run(
    mounted,
    `cd $M; n=$(printf 'a\\377b'); echo odd > "$n"; test "$(cat "$F/$n")" = odd
    ls | grep -q -a "$n"; rm "$n"; test "$(ls)" = f`,
  );
});

test("nothing is written to what is read-only", [], async (mounted) => {
  await Deno.writeTextFile(`${mounted.folder}/file`, "text");
  const refused = await run(
    mounted,
    `cd $M; cat file
    for c in 'echo x > file' 'echo x > new' 'rm file' 'mkdir d' 'mv file g' 'ln -s x l' 'chmod 600 file'
    do sh -c "$c" 2>&1 && echo DONE || true; done`,
  );
  assert.equal(refused.match(/[Rr]ead-only file system/g)?.length, 7, refused);
  assert.ok(!refused.includes("DONE"));
}, { writable: false });

const RANDOM = `
const [path, seed, turns] = Deno.args;
let state = Number(seed);
const next = (below) => (state = (state * 1103515245 + 12345) & 0x7fffffff, (state >> 8) % below);
let model = new Uint8Array(0);
let file = Deno.openSync(path, { read: true, write: true, create: true });
const MOST = 400_000;
const fail = (what) => { console.error(what); Deno.exit(1); };
for (let turn = 0; turn < Number(turns); turn++) {
  const at = next(MOST), size = 1 + next(70_000);
  switch (next(7)) {
    case 0: case 1: {
      const bytes = new Uint8Array(size).fill(1 + turn % 255);
      file.seekSync(at, 0);
      for (let done = 0; done < size;) done += file.writeSync(bytes.subarray(done));
      if (at + size > model.length) { const all = new Uint8Array(at + size); all.set(model); model = all; }
      model.set(bytes, at);
      break;
    }
    case 2: {
      const all = new Uint8Array(at);
      all.set(model.subarray(0, at));
      model = all;
      file.truncateSync(at);
      break;
    }
    case 3: case 4: {
      const got = new Uint8Array(size);
      file.seekSync(at, 0);
      let have = 0;
      for (let n; have < size && (n = file.readSync(got.subarray(have)));) have += n;
      const want = model.subarray(at, at + size);
      if (have !== want.length) fail(\`turn \${turn}: \${have} bytes at \${at}, not \${want.length}\`);
      for (let n = 0; n < have; n++) if (got[n] !== want[n]) fail(\`turn \${turn}: byte \${at + n}\`);
      break;
    }
    case 5: {
      file.close();
      file = Deno.openSync(path, { read: true, write: true });
      break;
    }
    case 6: {
      if (next(2)) file.syncSync();
      else {
        Deno.renameSync(path, path + ".moved");
        Deno.renameSync(path + ".moved", path);
      }
      if (file.statSync().size !== model.length) fail(\`turn \${turn}: size\`);
    }
  }
}
file.close();
const all = Deno.readFileSync(path);
if (all.length !== model.length || all.some((byte, n) => byte !== model[n])) fail("at the end");
`;

test("writes, cuts and reads at random are those of a file", [], async (mounted) => {
  await Deno.writeTextFile(`${mounted.beside}/random.ts`, RANDOM);
  await Promise.all(
    [1, 2, 3].map((seed) =>
      run(
        mounted,
        `${Deno.execPath()} run -A --no-lock $B/random.ts $M/random-${seed} ${seed} 1000`,
      )
    ),
  );
});
