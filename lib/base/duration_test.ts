import { equal, throws } from "node:assert/strict";
import fc from "fast-check";
import { runs } from "../../test/fixtures/property.ts";
import { SvcError } from "./errors.ts";
import { formatDuration, parseDuration } from "./duration.ts";

Deno.test("durations: Go's forms", () => {
  for (
    const [text, ms] of [
      ["0", 0],
      ["1m30s", 90_000],
      ["1.5h", 5_400_000],
      ["300ms", 300],
      [
        "-2s",
        -2000,
      ],
      ["2h45m", 9_900_000],
      ["1us", 0.001],
      ["168h", 604_800_000],
      [".5s", 500],
    ] as const
  ) equal(parseDuration(text), ms, text);
});

Deno.test("durations: what is not one", () => {
  for (const text of ["", "5", "1x", "1 s", "s", "1h-3m", "1hh", "--1s", "1e3s"]) {
    throws(
      () => parseDuration(text),
      (e) => e instanceof SvcError && e.code === "argument_invalid",
      text,
    );
  }
});

Deno.test("durations: what is written reads back", () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 1e12 }), (ms) => {
      equal(Math.round(parseDuration(formatDuration(ms))), ms);
    }),
    runs(100),
  );
});
