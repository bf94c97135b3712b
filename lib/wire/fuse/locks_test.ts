/** Locks in a mount are locks of the folder that is mounted: whoever uses that folder heeds them too. */
import assert from "node:assert/strict";
import { mountTest as test, run } from "./testing.ts";

test("flock: each side's locks keep out the other's", ["flock"], async (mounted) => {
  const taken = (place: string) => `flock -n ${place}/file true && echo free || echo taken`;
  const said = await run(
    mounted,
    `echo x > $F/file
    flock $M/file sh -c '${taken("$F")}; ${taken("$M")}'
    flock $F/file sh -c '${taken("$M")}'
    flock -s $F/file sh -c '${taken("$M")}; flock -s -n $M/file echo shared'
    flock $F/file sh -c 'touch $B/held; until test -e $B/go; do sleep 0.02; done; echo first' &
    until test -e $B/held; do sleep 0.02; done
    flock $M/file echo second & sleep 0.1; touch $B/go; wait`,
  );
  assert.deepEqual(said.split("\n"), [
    ...["taken", "taken", "taken", "taken", "shared"],
    ...["first", "second"],
  ]);
});

test("sqlite: two inside and two outside write one database", ["sqlite3"], async (mounted) => {
  const COUNT = 12;
  await run(mounted, "sqlite3 $F/db 'create table t(who, n, unique(who, n))'");
  const writer = (who: string, place: string) =>
    run(
      mounted,
      // One process keeps its pages between transactions: it has to see that others have changed them.
      `for n in $(seq ${COUNT}); do echo "insert into t select '${who}', count(*) from t where who = '${who}';"; done |
        sqlite3 -bail -cmd '.timeout 300000' ${place}/db`,
    );
  await Promise.all([
    ...[writer("a", "$M"), writer("b", "$M")],
    ...[writer("c", "$F"), writer("d", "$F")],
  ]);
  for (const place of ["$M", "$F"]) {
    const said = await run(
      mounted,
      `sqlite3 ${place}/db "select count(*), max(n) from t; pragma integrity_check"`,
    );
    assert.equal(said, `${4 * COUNT}|${COUNT - 1}\nok`, place);
  }
});

const SEEN = `
use Fcntl ":flock";
open(my $in, "+<", "$ENV{M}/f") or die; open(my $out, "+<", "$ENV{F}/f") or die;
my $stale = 0;
for my $n (1000 .. 1040) {
  sysseek($in, 0, 0); sysread($in, my $before, 4);
  sysseek($out, 0, 0); syswrite($out, $n);
  flock($in, LOCK_EX) or die; sysseek($in, 0, 0); sysread($in, my $after, 4); flock($in, LOCK_UN);
  $stale++ if $after ne $n;
}
print $stale;
`;

test("who gets a lock sees what was written before it", ["perl"], async (mounted) => {
  await Deno.writeTextFile(`${mounted.beside}/seen.pl`, SEEN);
  assert.equal(await run(mounted, "echo 0000 > $F/f; perl $B/seen.pl"), "0");
});
