import assert from "node:assert/strict";
import type { RestartPolicy } from "../../api/deploy_spec.ts";
import type { InstanceChange } from "../../api/deployment.ts";
import { Life, type LifeOptions } from "./life.ts";

const process = { pid: 1, startTime: "1", bootId: "b" };
const at = (ms: number) => new Date(ms);

/** Milliseconds of the clock that nobody sets. */
let clock = 0;

function life(policy: RestartPolicy, options: Partial<LifeOptions> = {}) {
  const told: InstanceChange["type"][] = [];
  const one = new Life({
    policy,
    restart: () => Promise.resolve(),
    tell: ({ type }) => told.push(type),
    now: () => clock,
    ...options,
  }, { restarts: 0 });
  return { one, told };
}

/** A run of `ms` that ends with `code`; the delay of the restart that follows, or what it is then. */
function after(one: Life, code: number, ms = 0): number | string {
  one.began({ process, startedAt: new Date().toISOString() });
  one.keep();
  clock += ms;
  const before = Date.now();
  one.ended({ code, at: at(Date.now() + ms) });
  const { state } = one;
  // To the next hundred: the clock goes on meanwhile.
  return state.is === "waiting" ? Math.floor((state.due - before) / 100) * 100 : state.is;
}

Deno.test("life: policies decide by exit code and attempts", () => {
  assert.equal(after(life("no").one, 1), "ended");
  const failing = life("on-failure", { maxAttempts: 2 }).one;
  assert.equal(after(failing, 0), "ended");
  assert.deepEqual([1, 1, 1].map((code) => after(failing, code)), [100, 200, "ended"]);
  const { one } = life("always");
  assert.equal(after(one, 0), 100);
  one.halt();
});

Deno.test("life: each end is told once, one with a failed start's code too, and the last failed start", async () => {
  const once = life("no");
  assert.equal(after(once.one, 125), "ended");
  assert.deepEqual(once.told, ["died"]);
  const tried = Promise.withResolvers<void>();
  const { one, told } = life("on-failure", {
    maxAttempts: 2,
    restart: () => Promise.reject(new Error("no root")),
    tell: ({ type }) => {
      told.push(type);
      if (told.length === 2) tried.resolve();
    },
  });
  assert.equal(after(one, 1), 100);
  assert.deepEqual(told, ["died"]);
  await tried.promise;
  assert.deepEqual([one.state.is, one.end?.message], ["ended", "no root"]);
  assert.deepEqual(told, ["died", "died"], "not the one that another start follows");
});

Deno.test("life: the delay doubles up to a minute and begins anew after a healthy run", () => {
  const { one } = life("unless-stopped");
  const delays = Array.from({ length: 12 }, () => after(one, 1, 10));
  assert.deepEqual(delays.slice(0, 4), [100, 200, 400, 800]);
  assert.equal(delays.at(-1), 60_000);
  assert.equal(after(one, 1, 10_000), 100);
  one.halt();
});

Deno.test("life: a clock that is set neither makes a run healthy nor takes that away", () => {
  const ran = (one: Life, ms: number, { set }: { set: number }) => {
    one.began({ process, startedAt: new Date().toISOString() });
    one.keep();
    clock += ms;
    one.ended({ code: 1, at: at(Date.now() + ms + set) });
    const { state } = one;
    return state.is === "waiting" ? state.due > Date.now() + 100 : state.is;
  };
  const hour = 3600_000;
  const back = life("on-failure", { maxAttempts: 1 }).one;
  assert.equal(ran(back, 10_000, { set: 0 }), false);
  assert.equal(ran(back, 10_000, { set: -hour }), false, "a healthy run");
  back.halt();
  const forward = life("on-failure", { maxAttempts: 1 }).one;
  assert.equal(ran(forward, 10, { set: 0 }), false);
  assert.equal(ran(forward, 10, { set: hour }), "ended", "the second failure in a row");
});

Deno.test("life: an end on trial is for who waits for it; then the policy follows", () => {
  const { one, told } = life("always");
  assert.deepEqual(one.state, { is: "made" });
  one.began({ process, startedAt: at(0).toISOString() });
  assert.deepEqual(one.record, { restarts: 0, process, startedAt: at(0).toISOString() });
  one.ended({ code: 3, at: at(5), oom: true });
  assert.deepEqual([one.state.is, one.end?.code], ["ended", 3]);
  assert.match(one.end!.message!, /memory/);
  assert.deepEqual(told, ["oom", "died"]);
  one.keep();
  assert.equal(one.state.is, "waiting");
  one.halt();
  assert.equal(one.state.is, "stopped");
});

Deno.test("life: no restart follows an end on purpose", () => {
  const { one } = life("always");
  one.began({ process, startedAt: at(0).toISOString() });
  one.keep();
  one.halt();
  assert.equal(one.state.is, "running");
  one.ended({ code: 137, at: at(5) });
  assert.equal(one.state.is, "stopped");
});

Deno.test("life: a restart that fails is tried again, until it is halted", async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  let starts = 0;
  const { one } = life("always", {
    restart: () => {
      if (++starts === 1) return Promise.reject(new Error("no"));
      one.began({ process, startedAt: at(0).toISOString() });
      resolve();
      return Promise.resolve();
    },
  });
  after(one, 1);
  await promise;
  assert.deepEqual(one.state.is === "running" && one.state.mode, "kept");
  assert.equal(one.record.restarts, 2);
  one.ended({ code: 1, at: at(0) });
  one.halt();
  await new Promise((done) => setTimeout(done, 500));
  assert.equal(starts, 2);
});

Deno.test("life: what an older server wrote down is an end that the policy has still to follow", () => {
  const record = { restarts: 4, exitCode: 1, finishedAt: at(7).toISOString() };
  const one = new Life({ policy: "no", restart: () => Promise.resolve(), tell: () => {} }, record);
  assert.deepEqual([one.state.is, one.end?.code, one.record.restarts], ["ended", 1, 4]);
  one.keep();
  assert.deepEqual(one.state.is === "ended" && one.state.mode, "over");
});

Deno.test("life: a restart that was waited for is waited for again, its attempts count", async () => {
  const tried = Promise.withResolvers<void>();
  const restart = () => {
    tried.resolve();
    return Promise.reject(new Error("no root"));
  };
  const options = { policy: "on-failure" as const, maxAttempts: 3, restart, tell: () => {} };
  const end = { restarts: 2, attempts: 2, exitCode: 1, finishedAt: at(7).toISOString() };
  const one = new Life(options, { ...end, due: 9 });
  assert.deepEqual([one.state.is, one.record.due, one.record.attempts], ["waiting", 9, 2]);
  one.keep();
  await tried.promise;
  await one.restarted;
  assert.deepEqual([one.state.is, one.record.attempts, one.record.due], [
    "waiting",
    3,
    one.record.due,
  ]);
  one.halt();
  assert.equal(one.record.due, undefined);
});
