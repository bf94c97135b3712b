import assert from "node:assert/strict";
import type { Life } from "./life.ts";
import { standingOf } from "./standing.ts";

const made: Pick<Life, "run" | "state"> = { run: undefined, state: { is: "made" } };

Deno.test("what runs keeps its traffic while a new server has not looked at it yet", () => {
  assert.equal(standingOf("ready", made, true), "running");
  assert.equal(standingOf("ready", made), undefined);
  assert.equal(standingOf("leaving", made, true), undefined);
  assert.equal(standingOf("creating", made), "coming");
  const end = { code: 1, finishedAt: "2026-01-01T00:00:00Z" };
  const ended: typeof made = { run: undefined, state: { is: "ended", mode: "over", end } };
  assert.equal(standingOf("ready", ended, true), undefined);
});
