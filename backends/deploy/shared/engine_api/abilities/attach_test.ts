import assert from "node:assert/strict";
import { InstanceEvents } from "../../../../../lib/deploy/instance_events.ts";
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
  return { attach: attachAbility(parts), events };
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
