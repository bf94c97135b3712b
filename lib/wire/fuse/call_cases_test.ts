/** Every kind of call, and its errors, on a mount and beside it on a folder of this machine. */
import assert from "node:assert/strict";
import { mountTest } from "./testing.ts";

const PROGRAM = new URL("../../../test/fixtures/file_call_cases.ts", import.meta.url).pathname;

async function lines(folder: string): Promise<string[]> {
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-lock", "--no-config", PROGRAM, folder],
  }).output();
  assert.equal(code, 0, new TextDecoder().decode(stderr));
  return new TextDecoder().decode(stdout).split("\n");
}

mountTest("calls and their errors are those of a local folder", [], async ({ at, beside }) => {
  const [mounted, local] = await Promise.all([lines(at), lines(beside)]);
  const differing = local.flatMap((want, index) =>
    want === mounted[index] ? [] : [`${want} -- mounted: ${mounted[index]}`]
  );
  assert.deepEqual(differing, []);
  assert.equal(mounted.length, local.length);
});
