import assert from "node:assert/strict";
import { parseManifest } from "../../oci/manifest.ts";
import { MEDIA } from "../../oci/types.ts";
import { bar, FancyReporter } from "./fancy.ts";
import type { Part } from "../../transfer/plan.ts";

const blob = (letter: string, size: number) => ({
  mediaType: MEDIA.layerGzip,
  digest: "sha256:" + letter.repeat(64),
  size,
});

function root(): Part {
  const bytes = new TextEncoder().encode(JSON.stringify({
    schemaVersion: 2,
    mediaType: MEDIA.manifest,
    config: blob("c", 10),
    layers: [],
  }));
  const descriptor = { mediaType: MEDIA.manifest, digest: "sha256:" + "f".repeat(64), size: 1 };
  return { descriptor, bytes, parsed: parseManifest(bytes) };
}

// deno-lint-ignore no-control-regex -- the escapes that the display uses
const plain = (text: string) => text.replace(/\x1b\[[0-9;?]*[A-Za-z]/g, "");

Deno.test("a bar is as long as its width, and full only at the end", () => {
  assert.equal(bar(0, 4), "[    ]");
  assert.equal(bar(0.5, 4), "[=>  ]");
  assert.equal(bar(0.99, 4), "[==> ]");
  assert.equal(bar(1, 4), "[====]");
});

Deno.test("bars with amount and speed, done blobs above, no line wider than the terminal", async () => {
  let now = 0;
  let text = "";
  const out = {
    isTerminal: true,
    size: () => ({ columns: 60, rows: 10 }),
    write: (data: string | Uint8Array) => {
      text += typeof data === "string" ? data : new TextDecoder().decode(data);
      return Promise.resolve();
    },
  };
  const [a, b] = [blob("a", 4096), blob("b", 2048)];
  {
    await using fancy = new FancyReporter(out, 1_000_000, () => now);
    fancy.plan({ root: root(), children: [], referrers: [], blobs: [a, b] }, "oci:in", "app:v1");
    fancy.start(a);
    fancy.start(b);
    // A resumed blob: what was there already is no speed.
    fancy.progress(a, 1024);
    now = 1000;
    fancy.progress(a, 2048);
    fancy.done(b, "exists");
    fancy.draw();
    await Promise.resolve();
  }
  const lines = plain(text).split("\n");
  assert.equal(lines[0], "oci:in -> app:v1 (2 blobs, 6.0 KiB)");
  assert.equal(lines[1], "sha256:bbbbbbbbbbbb 2.0 KiB is there already");
  assert.match(lines[2], /^sha256:a{12} \[=+> +\] 2\.0 KiB \/ 4\.0 KiB 1\.0 KiB\/s$/);
  assert.equal(lines[3].trim(), "1/2 blobs, 4.0 KiB / 6.0 KiB");
  for (const line of lines) assert.ok(line.replace("\r", "").length <= 60, line);
  assert.ok(text.startsWith("\x1b[?25l") && text.endsWith("\x1b[?25h"));
});
