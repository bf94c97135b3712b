import assert from "node:assert/strict";
import { SvcError } from "../../base/errors.ts";
import type { DeploymentStatus } from "../../api/deployment.ts";
import { LiveNames } from "./live_names.ts";
import { deployment } from "./socks5_testing.ts";
import { sparingly } from "./told.ts";

/** `keepMs` long enough for whatever the machine does meanwhile. */
const LONG = 3_600_000;

Deno.test("live names: what runs; one question for many who ask, and its answer holds", async () => {
  let lists = 0;
  const answer = Promise.withResolvers<DeploymentStatus[]>();
  const names = new LiveNames({ list: () => (lists++, answer.promise) }, {
    keepMs: LONG,
    waitMs: LONG,
    warn: (text) => assert.fail(text),
  });
  const asked = ["web", "old", "slow", "half", "none"].map((name) => names.has(name));
  answer.resolve([
    deployment("web"),
    deployment("old", { state: "stopped" }),
    deployment("slow", { state: "creating" }),
    deployment("half", {
      state: "failed",
      instances: [{ id: "a", state: "running", restarts: 0 }],
    }),
  ]);
  assert.deepEqual(await Promise.all(asked), [true, false, false, true, false]);
  assert.equal(await names.has("web"), true);
  assert.equal(lists, 1);
});

Deno.test("live names: an answer that is old is asked for again", async () => {
  let lists = 0;
  const names = new LiveNames({ list: () => Promise.resolve(lists++ ? [deployment("web")] : []) }, {
    keepMs: 0,
    waitMs: LONG,
    warn: (text) => assert.fail(text),
  });
  assert.equal(await names.has("web"), false);
  assert.equal(await names.has("web"), true);
});

Deno.test("live names: a server that fails or never answers is told of once, until it answers", async () => {
  const told: string[] = [];
  let list = (): Promise<DeploymentStatus[]> =>
    Promise.reject(new SvcError("server_unreachable", "Cannot reach the server: no"));
  const names = new LiveNames({ list: () => list() }, {
    keepMs: 0,
    waitMs: 20,
    warn: (text) => void told.push(text),
  });
  assert.equal(await names.has("web"), false);
  list = () => new Promise(() => {});
  assert.equal(await names.has("web"), false);
  const first = "hosts without a dot are looked up as any other, not as services: ";
  assert.deepEqual(told, [`${first}Cannot reach the server: no`]);
  list = () => Promise.resolve([deployment("web")]);
  assert.equal(await names.has("web"), true);
  list = () => new Promise(() => {});
  assert.equal(await names.has("web"), false);
  assert.equal(told[1], `${first}Cannot list the deployments: no answer in time`);
});

Deno.test("sparingly: the same again after ten seconds; strangers cannot fill memory", () => {
  const said: string[] = [];
  let now = 0;
  const tell = sparingly((text) => void said.push(text), () => now);
  tell("a", "one");
  tell("a", "two");
  tell("b", "three");
  now = 9_999;
  tell("a", "four");
  now = 10_000;
  tell("a", "five");
  assert.deepEqual(said, ["one", "three", "five"]);
  // Beyond what is remembered the oldest may be said again.
  for (let n = 0; n < 256; n++) tell(`key ${n}`, "x");
  said.length = 0;
  tell("key 255", "known");
  tell("a", "forgotten");
  assert.deepEqual(said, ["forgotten"]);
});
