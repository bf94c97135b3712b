/** Editors, package managers and the like over a mount. */
import assert from "node:assert/strict";
import { AheadBlocks } from "../blocks/ahead_blocks.ts";
import { mountTest as test, run } from "./testing.ts";

/** Files of the package that npm installs. */
const FILES = Number(Deno.env.get("SVC_TEST_NPM_FILES") ?? 500);

test("vim saves, in place and by renaming over", ["vim"], async (mounted) => {
  await run(mounted, "echo first > $F/file; chmod 640 $F/file; ln -s file $F/link; ls $M");
  const vim = (settings: string, word: string, file: string) =>
    run(
      mounted,
      `vim -es -u NONE -i NONE -c 'set ${settings}' -c '1s/.*/${word}/' -c wq $M/${file} < /dev/null`,
    );
  await vim("backup backupcopy=no backupdir=.", "second", "file");
  await vim("nobackup writebackup backupcopy=yes", "third", "link");
  await vim("nobackup nowritebackup fsync", "fourth", "file");
  assert.equal(
    await run(mounted, "cat $F/file; stat -c %a $F/file; ls $F"),
    "fourth\n640\nfile\nlink",
  );
});

for (const [kind, most, ahead] of [["", 3], [", async", 2, () => new AheadBlocks({})]] as const) {
  test(
    `a save (write, fsync, rename over) waits ${most} times${kind}`,
    ["perl"],
    async (mounted) => {
      await Deno.writeTextFile(
        `${mounted.beside}/save.pl`,
        `use IO::Handle; my $n = shift;
    open(my $new, ">", "$ENV{M}/new") or die; print $new "saved $n\\n" x 100; $new->flush; $new->sync or die;
    close($new); rename("$ENV{M}/new", "$ENV{M}/file") or die;`,
      );
      await run(mounted, "echo old > $M/file; ls -l $M");
      let fewest = Infinity;
      for (let n = 1; n <= 8; n++) {
        const before = mounted.waits();
        await run(mounted, `perl $B/save.pl ${n}`);
        fewest = Math.min(fewest, mounted.waits() - before);
      }
      assert.equal(await run(mounted, "head -1 $F/file; ls $F"), "saved 8\nfile");
      // Where other work on the machine comes in between, an answer is heard that was not waited for.
      assert.ok(fewest <= most, `${fewest} waits`);
    },
    { delayMs: 60, ahead },
  );
}

test("tail -f follows what is written outside", ["tail"], async (mounted) => {
  await run(
    mounted,
    `echo one > $F/log; tail -n +1 -s 0.05 -f $M/log > $B/out & tail=$!
    until grep -q one $B/out; do sleep 0.02; done
    for n in two three; do echo $n >> $F/log; until grep -q $n $B/out; do sleep 0.02; done; done
    kill $tail; wait $tail || true; test "$(wc -l < $B/out)" = 3`,
  );
});

test("files above 4 GiB, with holes", ["dd", "cp"], async (mounted) => {
  const said = await run(
    mounted,
    `cd $M; truncate -s 5G big; printf end | dd of=big bs=1 seek=4999999999 conv=notrunc status=none
    dd if=big bs=1 skip=4999999999 count=3 status=none; echo
    printf x | dd of=big oflag=append conv=notrunc status=none; stat -c %s big; test $(stat -c %b $F/big) -lt 1000
    tail -c 1 big; echo; cmp -n 10 -i 4999999995:4999999995 big $F/big`,
  );
  assert.equal(said, "end\n5368709121\nx");
});

test(`npm installs a package of ${FILES} files`, ["npm", "tar"], async (mounted) => {
  await run(
    mounted,
    `mkdir -p $B/made/package $F/app; cd $B/made/package
    for d in $(seq ${Math.ceil(FILES / 50)}); do mkdir -p lib/d$d
      for n in $(seq 50); do echo "module.exports = '$d/$n';" > lib/d$d/$n.js; done; done
    echo '{"name":"many","version":"1.0.0","bin":{"many":"lib/d1/1.js"}}' > package.json
    cd ..; tar -czf $B/many.tgz package; echo '{"name":"app","version":"1.0.0"}' > $F/app/package.json
    cd $M/app; npm install --offline --no-audit --no-fund --loglevel=error --cache $B/npm $B/many.tgz
    diff -r $B/made/package $F/app/node_modules/many; test -L $M/app/node_modules/.bin/many`,
  );
});
