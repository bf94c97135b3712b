import assert from "node:assert/strict";
import { shellCandidates } from "./shells.ts";

Deno.test("shells: the workload's own, the profile's, the usual ones, each once", () => {
  assert.deepEqual(shellCandidates(), [["bash"], ["ash"], ["sh"]]);
  assert.deepEqual(shellCandidates(["/bin/fish", "sh"], ["bash -l", "/bin/fish"]), [
    ["/bin/fish"],
    ["sh"],
    ["bash", "-l"],
    ["bash"],
    ["ash"],
  ]);
});

Deno.test("shells: an entry is one command line, split as a shell splits it and not expanded", () => {
  const entries = [
    `busybox  sh`,
    `env PS1='a b $HOME' "my shell" --rc="x \\"y\\""`,
    `a\\ b ""`,
    "  ",
  ];
  assert.deepEqual(shellCandidates(entries).slice(0, -3), [
    ["busybox", "sh"],
    ["env", "PS1=a b $HOME", "my shell", '--rc=x "y"'],
    ["a b", ""],
  ]);
  assert.throws(() => shellCandidates([], ["sh 'x"]), {
    code: "argument_invalid",
    message: `Cannot use shell "sh 'x": expected a closing '`,
  });
});
