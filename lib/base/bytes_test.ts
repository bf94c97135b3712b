import { equal, throws } from "node:assert/strict";
import { SvcError } from "./errors.ts";
import { formatBytes, parseBytes } from "./bytes.ts";

Deno.test("sizes: numbers and units", () => {
  for (
    const [text, bytes] of [
      ["262144", 262144],
      ["64k", 65536],
      ["64Mi", 67108864],
      [
        "1.5GiB",
        1610612736,
      ],
      ["10 MB", 10485760],
      ["0", 0],
    ] as const
  ) equal(parseBytes(text), bytes, text);
  for (const text of ["", "k", "-1", "1x", "1e400", "99999999P"]) {
    throws(
      () => parseBytes(text),
      (e) => e instanceof SvcError && e.code === "argument_invalid",
      text,
    );
  }
});

Deno.test("sizes: for a person", () => {
  equal(formatBytes(0), "0 B");
  equal(formatBytes(1536), "1.5 KiB");
  equal(formatBytes(200 * 1024 ** 2), "200 MiB");
});
