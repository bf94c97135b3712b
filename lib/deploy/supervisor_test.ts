import assert from "node:assert/strict";
import { Supervisor } from "./supervisor.ts";

const restart = () => Promise.resolve();

Deno.test("policies decide by exit code and attempts", () => {
  const no = new Supervisor({ policy: "no", restart });
  assert.equal(no.next({ code: 1, ran: 0 }), undefined);
  const failure = new Supervisor({ policy: "on-failure", maxAttempts: 2, restart });
  assert.equal(failure.next({ code: 0, ran: 0 }), undefined);
  assert.equal(failure.next({ code: 1, ran: 0 }), 100);
  assert.equal(failure.next({ code: 1, ran: 0 }), 200);
  assert.equal(failure.next({ code: 1, ran: 0 }), undefined);
  const always = new Supervisor({ policy: "always", restart });
  assert.equal(always.next({ code: 0, ran: 0 }), 100);
});

Deno.test("the delay doubles up to a minute and begins anew after a healthy run", () => {
  const supervisor = new Supervisor({ policy: "unless-stopped", restart });
  const delays = Array.from({ length: 12 }, () => supervisor.next({ code: 1, ran: 10 }));
  assert.deepEqual(delays.slice(0, 4), [100, 200, 400, 800]);
  assert.equal(delays.at(-1), 60_000);
  assert.equal(supervisor.next({ code: 1, ran: 10_000 }), 100);
});

Deno.test("an exit restarts after its delay, a failing start tries again, cancel stops it", async () => {
  let starts = 0;
  const { promise, resolve } = Promise.withResolvers<void>();
  const supervisor = new Supervisor({
    policy: "always",
    restart: () => {
      if (++starts === 1) return Promise.reject(new Error("no"));
      resolve();
      return Promise.resolve();
    },
  });
  supervisor.exited({ code: 1, ran: 0 });
  assert.ok(supervisor.due! > Date.now());
  await promise;
  assert.equal(starts, 2);
  supervisor.exited({ code: 1, ran: 0 });
  supervisor.cancel();
  assert.equal(supervisor.due, undefined);
  await new Promise((done) => setTimeout(done, 150));
  assert.equal(starts, 2);
});
