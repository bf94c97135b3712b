/** Commands of the client that have to succeed. */
import assert from "node:assert/strict";
import type { RunOptions, Server } from "./harness.ts";

/** The command's output. Fails with its errors. */
export async function ok(
  server: Server,
  args: string[],
  options: RunOptions = {},
): Promise<string> {
  const { code, stdout, stderr } = await server.svc(args, options);
  assert.equal(code, 0, `svc ${args.join(" ")}: ${stderr}`);
  return stdout;
}
