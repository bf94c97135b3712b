import assert from "node:assert/strict";
import { SvcError } from "../base/errors.ts";
import { decodeExecQuery, encodeExecQuery } from "./exec.ts";

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
