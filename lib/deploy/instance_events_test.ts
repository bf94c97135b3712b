import assert from "node:assert/strict";
import type { InstanceEvent } from "../api/deployment.ts";
import { InstanceEvents, MAX_WAITING } from "./instance_events.ts";

const event = (container: string): InstanceEvent => ({
  ...{ type: "started", time: "2026-01-01T00:00:00Z" },
  ...{ deployment: "web", instance: "web-0", container },
});

const containers = async (events: AsyncIterable<InstanceEvent>) =>
  (await Array.fromAsync(events)).map(({ container }) => container);

Deno.test("events: each watcher has those since its call, in order, before it reads any", async () => {
  const events = new InstanceEvents();
  const signal = new AbortController().signal;
  events.emit(event("before"));
  const first = events.watch(signal);
  events.emit(event("a"));
  const second = events.watch(signal);
  events.emit(event("b"));
  events.end();
  events.emit(event("after"));
  assert.deepEqual(await containers(first), ["a", "b"]);
  assert.deepEqual(await containers(second), ["b"]);
});

Deno.test("events: the signal ends them at once, whatever waits", async () => {
  const events = new InstanceEvents();
  const abort = new AbortController();
  const waiting = containers(events.watch(abort.signal));
  const idle = events.watch(abort.signal);
  events.emit(event("a"));
  abort.abort();
  events.emit(event("b"));
  assert.deepEqual(await containers(idle), []);
  assert.deepEqual((await waiting).filter((name) => name !== "a"), []);
  assert.deepEqual(await containers(events.watch(abort.signal)), [], "aborted before");
});

Deno.test("events: who is slow holds up nobody, and is told at the end that some are missing", async () => {
  const events = new InstanceEvents();
  const slow = events.watch(new AbortController().signal);
  for (let i = 0; i <= MAX_WAITING; i++) events.emit(event(String(i)));
  const seen: string[] = [];
  await assert.rejects(async () => {
    for await (const { container } of slow) seen.push(container);
  }, { code: "unavailable", message: /more than 1024 waited/ });
  assert.deepEqual([seen.length, seen.at(-1)], [MAX_WAITING, String(MAX_WAITING - 1)]);
});

Deno.test("events: who leaves the loop is told nothing more", async () => {
  const events = new InstanceEvents();
  const all = events.watch(new AbortController().signal);
  events.emit(event("a"));
  for await (const { container } of all) {
    assert.equal(container, "a");
    break;
  }
  events.emit(event("b"));
  assert.deepEqual(await containers(all), []);
});
