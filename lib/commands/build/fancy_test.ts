import assert from "node:assert/strict";
import type { BuildEvent } from "../../api/build.ts";
import { FancyProgress, fit } from "./fancy.ts";
import { BuildState } from "./state.ts";

/** What a terminal of that width shows, from the escapes the display uses. */
function screen(text: string, columns: number): string[] {
  const lines: string[] = [""];
  let row = 0;
  // deno-lint-ignore no-control-regex -- the escapes under test
  for (const [token] of text.matchAll(/\x1b\[(\d*)([A-Za-z])|\x1b\[\?25[lh]|\n|\r|[^\x1b\n\r]+/g)) {
    if (/^.\[\d+A$/.test(token)) row -= parseInt(token.slice(2));
    else if (token === "\x1b[J") lines.splice(row, Infinity, "");
    else if (token === "\n") lines[++row] ??= "";
    else if (!token.startsWith("\x1b") && token !== "\r") {
      lines[row] += token;
      assert.ok(lines[row].length <= columns, `a line wraps: ${lines[row]}`);
    }
  }
  return lines;
}

Deno.test("the region is redrawn in place and leaves only what is done", async () => {
  let now = 0;
  let text = "";
  const state = new BuildState(() => now);
  const out = {
    isTerminal: true,
    size: () => ({ columns: 40, rows: 8 }),
    write: (data: string | Uint8Array) => {
      text += data;
      return Promise.resolve();
    },
  };
  const events: BuildEvent[] = [
    { type: "vertex", id: "a", name: "[1/3] FROM base" },
    { type: "vertex", id: "b", name: "[2/3] RUN " + "long ".repeat(20) },
    { type: "vertex", id: "c", name: "[3/3] COPY . ." },
    { type: "start", id: "a", time: "" },
    { type: "progress", id: "a", label: "pulling", current: 1024, total: 4096 },
  ];
  {
    await using progress = new FancyProgress(state, out, 1_000_000);
    for (const event of events) progress.event(event);
    now = 2500;
    progress.draw();
    assert.deepEqual(screen(text, 40).map((line) => line.trimEnd()), [
      "[+] Building (0/3)",
      " => [1/3] FROM base                2.5s",
      " => => pulling 1.0 KiB / 4.0 KiB",
      "",
    ]);
    progress.event({ type: "done", id: "a", durationMs: 2600 });
    progress.event({ type: "start", id: "b", time: "" });
    for (let i = 0; i < 9; i++) {
      progress.event({ type: "output", id: "b", stream: "stdout", text: `\x1b[2Jline ${i}\n` });
    }
    progress.draw();
    const lines = screen(text, 40);
    assert.match(lines[0], /^ => \[1\/3\] FROM base +2\.6s$/);
    assert.equal(lines[1], "[+] Building (1/3)");
    assert.match(lines[2], /^ => \[2\/3\] RUN long .* 0\.0s$/);
    assert.deepEqual(lines.slice(3), [5, 6, 7, 8].map((i) => ` => => # line ${i}`).concat(""));
    progress.event({ type: "failed", id: "b", message: "exit code 1" });
  }
  assert.ok(text.endsWith("\x1b[?25h"));
  const left = screen(text, 40);
  assert.match(left[1], /^ => ERROR \[2\/3\] RUN long/);
  assert.equal(left.length, 3);
});

Deno.test("lines are cut so that none wraps, and cannot drive the terminal", () => {
  assert.equal(fit("abcdef", 4), "abcd");
  assert.equal(fit("日本語", 4), "日本");
  assert.equal(fit("日本語", 5), "日本");
  assert.equal(fit("\x1b[31mred\x1b[0m\x07\x1b]0;title\x07!", 80), "red!");
  assert.equal(fit("a\tb", 80), "a    b");
});
