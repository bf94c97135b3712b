import { deepEqual, equal, rejects } from "node:assert/strict";
import { KeyedMutex, Mutex, Semaphore } from "./mutex.ts";

const tick = () => new Promise((resolve) => setTimeout(resolve, 1));

Deno.test("Mutex: one at a time, in order, released by a throw", async () => {
  const mutex = new Mutex();
  const order: number[] = [];
  let inside = 0;
  const results = await Promise.allSettled([1, 2, 3].map((n) =>
    mutex.run(async () => {
      equal(++inside, 1);
      await tick();
      inside--;
      order.push(n);
      if (n === 2) throw new Error("two");
    })
  ));
  deepEqual(order, [1, 2, 3]);
  deepEqual(results.map((r) => r.status), ["fulfilled", "rejected", "fulfilled"]);
});

Deno.test("KeyedMutex: other keys do not wait", async () => {
  const locks = new KeyedMutex();
  const { promise, resolve } = Promise.withResolvers<void>();
  const held = locks.run("a", () => promise);
  equal(await locks.run("b", () => 7), 7);
  resolve();
  await held;
});

Deno.test("Semaphore: bounded, and an aborted waiter leaves the queue", async () => {
  const semaphore = new Semaphore(2);
  let most = 0;
  let now = 0;
  const gate = Promise.withResolvers<void>();
  const work = async () => {
    most = Math.max(most, ++now);
    await gate.promise;
    now--;
  };
  const running = [semaphore.run(work), semaphore.run(work), semaphore.run(work)];
  const abort = new AbortController();
  const waiting = semaphore.run(work, abort.signal);
  const places: number[] = [];
  const last = semaphore.run(work, undefined, (place) => places.push(place));
  abort.abort();
  await rejects(waiting, { name: "AbortError" });
  deepEqual(places, [3, 2], "its place changes as others leave");
  gate.resolve();
  await last;
  deepEqual(places, [3, 2, 1]);
  await Promise.all(running);
  equal(most, 2);
  equal(await semaphore.run(() => Promise.resolve(1)), 1);
});
