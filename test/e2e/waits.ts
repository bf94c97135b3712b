/** What tests of whole deployments wait for, and commands that have to succeed. */
import assert from "node:assert/strict";
import type { Server } from "./harness.ts";

/** Waits up to two minutes; a check that throws counts as one that does not hold yet. */
export async function eventually(what: string, holds: () => Promise<boolean>): Promise<void> {
  for (const until = Date.now() + 120_000; !await holds().catch(() => false);) {
    if (Date.now() > until) throw new Error(`did not happen: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** The command's output. Fails with its errors. */
export async function ok(server: Server, args: string[], stdin?: string): Promise<string> {
  const { code, stdout, stderr } = await server.svc(args, { stdin });
  assert.equal(code, 0, `svc ${args.join(" ")}: ${stderr}`);
  return stdout;
}
