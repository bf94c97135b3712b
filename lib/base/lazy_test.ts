import { equal, rejects } from "node:assert/strict";
import { lazy } from "./lazy.ts";

Deno.test("lazy: made once, a failure is not kept", async () => {
  let calls = 0;
  const value = lazy(() =>
    ++calls === 1 ? Promise.reject(new Error("first")) : Promise.resolve(calls)
  );
  equal(value.made(), undefined);
  await rejects(value.get(), { message: "first" });
  equal(value.made(), undefined);
  equal(await value.get(), 2);
  equal(await value.get(), 2);
  equal(await value.made(), 2);
});
