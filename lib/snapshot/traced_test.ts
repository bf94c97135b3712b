import assert from "node:assert/strict";
import { createLogger } from "../base/log.ts";
import type { Snapshotter } from "./snapshotter.ts";
import { traced } from "./traced.ts";

Deno.test("traced: each call is in the log with its names, its time and its error; answers stay", async () => {
  const lines: string[] = [];
  const write = (line: string) => void lines.push(line);
  const log = createLogger({ level: "info", format: "json", write });
  class Small {
    driver = "native";
    #known = "base";
    stat(name: string) {
      return Promise.resolve(name === this.#known ? { name } : undefined);
    }
    commit(_active: { id: string }, _name: string) {
      return Promise.reject(new Error("full"));
    }
    use() {
      return { [Symbol.dispose]() {} };
    }
  }
  const snapshotter = traced(new Small() as unknown as Snapshotter, log);
  assert.equal(snapshotter.driver, "native");
  assert.equal((await snapshotter.stat("base"))?.name, "base");
  await assert.rejects(snapshotter.commit({ id: "step" } as never, "image"), { message: "full" });
  snapshotter.use();
  const told = lines.map((line) => JSON.parse(line));
  assert.deepEqual(told.map(({ call, of, driver }) => [call, of, driver]), [
    ["stat", "base", "native"],
    ["commit", "step image", "native"],
    ["use", "", "native"],
  ]);
  assert.ok(told.every(({ ms }) => ms >= 0));
  assert.match(JSON.stringify(told[1]), /full/);
});
