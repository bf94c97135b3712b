import assert from "node:assert/strict";
import { InstanceEvents } from "../../../../../lib/deploy/instance_events.ts";
import { duplexPair } from "../../../../../lib/wire/testing.ts";
import { attachAbility } from "./attach.ts";

type Parts = Parameters<typeof attachAbility>[0];

/** An engine of which no instance runs yet: who attaches waits. */
function waiting() {
  const events = new InstanceEvents();
  const parts = {
    calls: {},
    watch: {
      events,
      closing: new AbortController().signal,
      requireLive: () => {},
      state: () => undefined,
    },
    require: () => ({ record: { spec: {} }, pick: () => ({ container: "c", replica: 0 }) }),
  } as unknown as Parts;
  return { attach: attachAbility(parts), events, parts };
}

Deno.test("attach: so many at a time to an instance; who leaves makes room", async () => {
  const { attach } = waiting();
  const leaving = new AbortController();
  const { signal } = leaving;
  const one = new AbortController();
  const outcomes = Array.from(
    { length: 64 },
    (_, at) => attach("web", { signal: at === 0 ? one.signal : signal }).catch((error) => error),
  );
  const tooMany = { code: "unavailable", message: /64 are attached/ };
  await assert.rejects(attach("web", { signal: AbortSignal.timeout(60_000) }), tooMany);
  const gone = new Error("gone");
  one.abort(gone);
  assert.equal(await outcomes[0], gone);
  const next = attach("web", { signal }).catch((error) => error);
  await assert.rejects(attach("web", { signal }), tooMany);
  // Another instance has room of its own.
  const other = attach("db", { signal }).catch((error) => error);
  leaving.abort(gone);
  for (const outcome of [...outcomes.slice(1), next, other]) assert.equal(await outcome, gone);
});

/** An engine whose instance runs since `StartedAt`, and what it tells of it. */
function running(StartedAt: string) {
  const { events, parts } = waiting();
  const State = { Status: "running", Running: true, StartedAt };
  parts.watch.state = () => ({ State }) as ReturnType<typeof parts.watch.state>;
  parts.calls.connect = () => {
    const [near] = duplexPair();
    return Promise.resolve(near);
  };
  const died = (time: string, exitCode: number) =>
    events.emit({
      ...{ type: "died", time, exitCode },
      ...{ deployment: "web", instance: "web-0", container: "c" },
    });
  return { attach: attachAbility(parts), died };
}

Deno.test("attach: the exit is that of the run that was seen, though the death before it is told late", async () => {
  const { attach, died } = running("2026-01-01T00:00:07.500123456Z");
  const { exit, detach } = await attach("web");
  died("2026-01-01T00:00:07.400Z", 0);
  died("2026-01-01T00:00:07.500Z", 7);
  assert.equal(await exit, 7);
  detach();
  // An engine that tells whole seconds.
  const coarse = running("2026-01-01T00:00:07.500Z");
  const session = await coarse.attach("web");
  coarse.died("2026-01-01T00:00:06.000Z", 0);
  coarse.died("2026-01-01T00:00:07.000Z", 3);
  assert.equal(await session.exit, 3);
  session.detach();
});
