import assert from "node:assert/strict";
import { buildInfo, setBuildInfo } from "./build_info.ts";
import config from "../../deno.json" with { type: "json" };

Deno.test("build info: the sources say deno.json's version", () => {
  assert.deepEqual(buildInfo(), {
    version: config.version,
    dirty: false,
    form: "source",
    tags: [],
  });
});

Deno.test("build info: the built entry's facts replace them", () => {
  const info = { version: "1.0.0", dirty: false, form: "launcher", tags: ["t"] } as const;
  setBuildInfo(info);
  assert.deepEqual(buildInfo(), info);
});
