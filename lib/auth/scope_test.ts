import assert from "node:assert/strict";
import { parseScopes } from "./scope.ts";

Deno.test("scopes: a text that names none is an error, an unknown one says which there are", () => {
  assert.deepEqual(parseScopes(" api, registry:pull ", "scope"), ["api", "registry:pull"]);
  for (const text of ["", " ", ",,"]) {
    assert.throws(() => parseScopes(text, "X"), { message: "Cannot read X: it names no scope" });
  }
  assert.throws(() => parseScopes("api admn", "X"), { code: "argument_invalid", message: /admn/ });
});
