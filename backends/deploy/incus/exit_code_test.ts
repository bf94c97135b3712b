import assert from "node:assert/strict";
import { exitCodeOf } from "./exit_code.ts";

const line = (words: string) => `lxc web-0 20261123193343.123 INFO  start - ${words}\n`;

Deno.test("how a process ended, by LXC's log of its run", () => {
  assert.equal(exitCodeOf(line("../src/lxc/start.c:x - Container started")), 0);
  assert.equal(exitCodeOf(line("Child <123> ended on error (3)")), 3);
  assert.equal(exitCodeOf(line("Child <123> ended on signal (15)")), 143);
  assert.equal(
    exitCodeOf(line("Child <1> ended on error (3)") + line("Child <2> ended on signal (9)")),
    137,
  );
  assert.equal(exitCodeOf(""), 255);
});
