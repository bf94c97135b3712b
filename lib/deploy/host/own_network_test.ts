import assert from "node:assert/strict";
import { SvcError } from "../../base/errors.ts";
import { createLogger } from "../../base/log.ts";
import { checkOwnNetwork } from "./own_network.ts";

Deno.test("a server in a network of its own starts only where SVC_HOST_NETWORK says so", async () => {
  const lines: string[] = [];
  const log = createLogger({
    level: "info",
    format: "json",
    write: (line: string) => void lines.push(line),
  });
  const check = (isolated: boolean, hostNetwork?: string) =>
    checkOwnNetwork({ hostNetwork, backend: "b", log, isolated: () => Promise.resolve(isolated) });
  await check(false);
  await check(true, "1");
  assert.equal(lines.length, 0);
  await check(true, "0");
  await check(false, "0");
  assert.equal(lines.length, 2);
  await assert.rejects(
    check(true),
    (error) =>
      error instanceof SvcError && error.code === "prerequisite_missing" &&
      /SVC_DEPLOY_BACKEND=b: .* a network of its own/.test(error.message) &&
      error.help.includes("SVC_HOST_NETWORK=0"),
  );
});
