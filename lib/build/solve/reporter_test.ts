import assert from "node:assert/strict";
import type { BuildEvent } from "../../api/build.ts";
import { Reporter } from "./reporter.ts";

Deno.test("reporter: output of a step is bounded, and so is that of many steps", () => {
  const text = "x".repeat(1 << 20);
  let bytes = 0;
  const said: string[] = [];
  const reporter = new Reporter((event: BuildEvent) => {
    if (event.type !== "output") return;
    bytes += event.text.length;
    if (event.text !== text) said.push(event.text);
  });
  for (let step = 0; step < 500; step++) {
    const id = String(step);
    reporter.announce({ id, name: id });
    for (let part = 0; part < (step === 0 ? 4 : 1); part++) {
      reporter.step(id, { type: "output", stream: "stdout", text });
    }
  }
  assert.match(said[0], /a step shows at most 2 MiB/);
  assert.match(said.at(-1)!, /a build shows at most 128 MiB/);
  assert.ok(bytes < 130 << 20, `${bytes} bytes`);
});
