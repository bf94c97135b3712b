import assert from "node:assert/strict";
import { readImageConfig } from "./image_config.ts";

const GOOD = {
  ...{ os: "linux", architecture: "amd64", created: "2026-01-01T00:00:00Z" },
  rootfs: { type: "layers", diff_ids: ["sha256:0"] },
  history: [{ created_by: "x" }],
  config: { Env: ["A=b"], Cmd: null, Labels: { a: "b" }, Volumes: { "/v": {} }, Other: 1 },
};

Deno.test("image config: what somebody pushed is one, or none", () => {
  const read = (change: object) => readImageConfig(JSON.stringify({ ...GOOD, ...change }));
  assert.deepEqual(read({}), GOOD);
  assert.ok(read({ config: undefined, history: null }));
  for (const text of ["null", "[]", "1", "not json", "{}", '"x"']) {
    assert.equal(readImageConfig(text), undefined, text);
  }
  for (
    const change of [
      { rootfs: 3 },
      { rootfs: { type: "layers", diff_ids: [1] } },
      { rootfs: { type: "layers" } },
      { history: 7 },
      { history: [null] },
      { created: {} },
      { config: 5 },
      { config: { Env: 5 } },
      { config: { Env: [5] } },
      { config: { Labels: [] } },
      { config: { Labels: { a: {} } } },
      { config: { Volumes: "x" } },
      { config: { Entrypoint: "sh" } },
    ]
  ) assert.equal(read(change), undefined, JSON.stringify(change));
});
