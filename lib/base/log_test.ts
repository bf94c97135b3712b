import { deepEqual, equal, match } from "node:assert/strict";
import { createLogger } from "./log.ts";

Deno.test("log: JSON lines with fields, below the level nothing", () => {
  const lines: string[] = [];
  const log = createLogger({
    level: "info",
    format: "json",
    write: (line) => lines.push(line),
    now: () => new Date(0),
  }).with({ request: "r1" });
  log.debug("hidden");
  log.warn("seen", { error: new Error("why"), none: undefined });
  equal(log.enabled("debug"), false);
  deepEqual(lines.map((line) => JSON.parse(line)), [
    { time: "1970-01-01T00:00:00.000Z", level: "warn", msg: "seen", request: "r1", error: "why" },
  ]);
});

Deno.test("log: text quotes what has blanks", () => {
  const lines: string[] = [];
  createLogger({ level: "debug", format: "text", write: (line) => lines.push(line) })
    .info("hello", { a: "b c", n: 1, path: "/x" });
  match(lines[0], /hello a="b c" n=1 path=\/x$/);
});

Deno.test("log: text shows control characters instead of sending them to the terminal", () => {
  const lines: string[] = [];
  createLogger({ level: "debug", format: "text", write: (line) => lines.push(line) })
    .info("hello", { a: "\u001b[2J", b: "x\u009b2J", c: "two\nlines", d: ["\u202e"] });
  match(lines[0], /hello a="\\u001b\[2J" b="x\\u009b2J" c="two\\nlines" d=\["\\u202e"\]$/);
});
