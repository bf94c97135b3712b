import assert from "node:assert/strict";
import { SvcError } from "../base/errors.ts";
import { decodeExecFrame, decodeExecQuery, encodeExecFrame, encodeExecQuery } from "./exec.ts";

Deno.test("frames survive the way", () => {
  const data = new Uint8Array([0, 255, 3]);
  for (const channel of ["stdin", "stdout", "stderr"] as const) {
    assert.deepEqual(decodeExecFrame(encodeExecFrame({ channel, data })), { channel, data });
  }
  const control = { exit: 7 };
  assert.deepEqual(decodeExecFrame(encodeExecFrame({ channel: "control", control })), {
    channel: "control",
    control,
  });
});

Deno.test("frames that are not ours are refused", () => {
  for (const bytes of [[], [9, 1], [3, 0x7b]]) {
    assert.throws(
      () => decodeExecFrame(new Uint8Array(bytes)),
      (e) => e instanceof SvcError && e.code === "argument_invalid",
    );
  }
});

Deno.test("the query carries the command word by word", () => {
  const query = { command: ["sh", "-c", "a & b", ""], env: ["K=V,W"], user: "1:2", stdin: true };
  const read = decodeExecQuery(new URLSearchParams(encodeExecQuery(query).toString()));
  assert.deepEqual(read, {
    ...query,
    workingDir: undefined,
    instance: undefined,
    tty: false,
  });
  assert.throws(() => decodeExecQuery(new URLSearchParams()), SvcError);
  const shell = {
    command: [],
    env: [],
    tty: true,
    shells: ["a b", "c"],
    size: { columns: 9, rows: 65535 },
  };
  assert.deepEqual(decodeExecQuery(encodeExecQuery(shell)), {
    ...shell,
    user: undefined,
    workingDir: undefined,
    instance: undefined,
    stdin: false,
  });
});
