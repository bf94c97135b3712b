import assert from "node:assert/strict";
import type { InstanceEvent } from "../api/deployment.ts";
import { silent } from "../base/log.ts";
import { watchDeployments } from "./watch.ts";

const event = (deployment: string) => ({ deployment }) as InstanceEvent;

Deno.test("watching goes on over a backend that is lost, and says that something may be missed", async () => {
  const abort = new AbortController();
  const seen: (string | undefined)[] = [];
  let opened = 0;
  const backend = () => {
    opened++;
    if (opened === 2) return Promise.reject(new Error("it is away"));
    return Promise.resolve({
      async *events() {
        await Promise.resolve();
        yield event(`web-${opened}`);
        if (opened === 1) throw new Error("the connection is lost");
        abort.abort();
      },
    });
  };
  const changed = (name?: string) => void seen.push(name);
  await watchDeployments({ backend, changed, signal: abort.signal, log: silent });
  assert.deepEqual(seen, [undefined, "web-1", undefined, "web-3"]);
});
