import assert from "node:assert/strict";
import { freePort } from "../../../test/fixtures/free_port.ts";
import { listenBeside } from "./listen.ts";

Deno.test("credentials: who waits for the caller is told of the workload's end", {
  ignore: Deno.uid() !== 0,
}, async () => {
  const asked = Promise.withResolvers<void>();
  const place = { path: "/proc/self/ns/net", port: freePort(), instance: "web-0" };
  const listening = await listenBeside(place, {
    deliveries: [{ kind: "endpoint", source: "token", aws: false, wellKnown: false }],
    get: () => {
      asked.resolve();
      return new Promise(() => {});
    },
    send: () => Promise.reject(new Error("there is no upstream")),
  });
  const asking = fetch(`http://127.0.0.1:${place.port}/credentials/token`);
  await asked.promise;
  await listening[Symbol.asyncDispose]();
  const answer = await asking;
  assert.equal(answer.status, 503);
  assert.match((await answer.json()).message, /the workload ends/);
});
