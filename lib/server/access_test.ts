import assert from "node:assert/strict";
import { ANONYMOUS, openAccess } from "./access.ts";

Deno.test("without authentication, whoever asks may do everything", () => {
  assert.equal(openAccess.allows(ANONYMOUS, "admin"), true);
  assert.deepEqual(openAccess.methods, []);
});
