import assert from "node:assert/strict";
import type { BuildEvent } from "../../api/build.ts";
import { FancyProgress } from "./fancy.ts";
import { PlainProgress } from "./plain.ts";
import { fit, regionLines } from "./region.ts";
import { BuildProgress } from "./progress.ts";

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
  const state = new BuildProgress(() => now);
  const out = {
    isTerminal: true,
    size: () => ({ columns: 40, rows: 8 }),
    write: (data: string | Uint8Array) => {
      text += typeof data === "string" ? data : new TextDecoder().decode(data);
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
    await using progress = new FancyProgress(state, out, { intervalMs: 1_000_000 });
    for (const event of events) progress.event(event);
    now = 2500;
    progress.draw();
    assert.deepEqual(screen(text, 40).map((line) => line.trimEnd()), [
      "[+] Building 2.5s (0/3)",
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
    assert.equal(lines[1], "[+] Building 2.5s (1/3)");
    assert.match(lines[2], /^ => \[2\/3\] RUN long .* 0\.0s$/);
    assert.deepEqual(lines.slice(3), [5, 6, 7, 8].map((i) => ` => => # line ${i}`).concat(""));
    progress.event({ type: "failed", id: "b", message: "exit code 1" });
  }
  assert.ok(text.endsWith("\x1b[?25h"));
  const left = screen(text, 40);
  assert.match(left[1], /^ => ERROR \[2\/3\] RUN long/);
  assert.equal(left[2], "[+] Building 2.5s (2/3) FAILED");
  assert.equal(left.length, 4);
});

Deno.test("lines are cut so that none wraps, and cannot drive the terminal", () => {
  assert.equal(fit("abcdef", 4), "abcd");
  assert.equal(fit("日本語", 4), "日本");
  assert.equal(fit("日本語", 5), "日本");
  assert.equal(fit("\x1b[31mred\x1b[0m\x07\x1b]0;title\x07!", 80), "red!");
  assert.equal(fit("a\tb", 80), "a    b");
});

function running(count: number): BuildProgress {
  const state = new BuildProgress(() => 0);
  for (let i = 0; i < count; i++) {
    state.apply({ type: "vertex", id: `${i}`, name: `step ${i}` });
    state.apply({ type: "start", id: `${i}`, time: "" });
    for (let line = 0; line < 9; line++) {
      state.apply({ type: "output", id: `${i}`, stream: "stdout", text: `${i}: line ${line}\n` });
    }
  }
  return state;
}

const texts = (state: BuildProgress, columns: number, rows: number) =>
  regionLines(state, { columns, rows }).map(({ text }) => text.trimEnd());

Deno.test("the region never has more rows than the terminal, and every step has a line first", () => {
  for (let rows = 0; rows < 12; rows++) {
    for (const steps of [0, 1, 3, 9]) {
      assert.ok(
        texts(running(steps), 20, rows).length <= Math.max(0, rows - 1),
        `${steps} ${rows}`,
      );
    }
  }
  assert.deepEqual(texts(running(3), 80, 2), [], "too few rows to redraw");
  assert.deepEqual(texts(running(3), 20, 7), [
    "[+] Building 0.0s (0",
    " => step 0     0.0s",
    " => => # 0: line 8",
    " => step 1     0.0s",
    " => => # 1: line 8",
    " => step 2     0.0s",
  ]);
  assert.deepEqual(texts(running(9), 80, 5).at(-1), " => and 7 more steps");
  const state = running(1);
  for (const label of ["a", "b"]) {
    state.apply({ type: "progress", id: "0", label, current: 1024, total: 2048 });
  }
  state.apply({ type: "progress", id: "0", label: "a", current: 2048, total: 2048 });
  const lines = texts(state, 80, 24);
  assert.equal(lines[2], " => => b 1.0 KiB / 2.0 KiB");
  assert.ok(!lines.some((line) => line.includes("=> a ")), "what is complete is left out");
});

Deno.test("a terminal that becomes narrow, or has no size, is redrawn where it was drawn", async () => {
  let text = "";
  let size: { columns: number; rows: number } | undefined = { columns: 40, rows: 10 };
  const out = {
    isTerminal: true,
    size: () => size,
    write: (data: string | Uint8Array) => {
      text += typeof data === "string" ? data : new TextDecoder().decode(data);
      return Promise.resolve();
    },
  };
  const state = running(1);
  const progress = new FancyProgress(state, out, { intervalMs: 1_000_000, colour: false });
  progress.draw();
  text = "";
  size = undefined;
  progress.draw();
  assert.ok(text.startsWith("\x1b[6A\r\x1b[J"), JSON.stringify(text.slice(0, 20)));
  text = "";
  size = { columns: 20, rows: 10 };
  progress.draw();
  // The step's line of 40 columns is two rows by now.
  assert.ok(text.startsWith("\x1b[8A\r\x1b[J"), JSON.stringify(text.slice(0, 20)));
  assert.ok(!text.includes("\x1b[1m") && !text.includes("\x1b[90m"), "no colours");
  await progress[Symbol.asyncDispose]();
});

Deno.test("a build that waits shows its place, as long as it waits", () => {
  const state = new BuildProgress(() => 0);
  const plain = new PlainProgress(state);
  const shown = () => regionLines(state, { columns: 80, rows: 8 }).map(({ text }) => text);
  for (const place of [2, 1]) {
    const text = `Waiting for other builds to end: place ${place} in the server's queue`;
    assert.deepEqual(plain.lines({ type: "queued", place }), [text]);
    assert.equal(shown()[1], ` => ${text}`);
  }
  plain.lines({ type: "vertex", id: "a", name: "[1/1] FROM base" });
  assert.equal(shown().length, 1);
});
