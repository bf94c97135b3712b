import assert from "node:assert/strict";
import { goMode } from "./archive.ts";
import { filtered, hasLabel, PRUNE_TESTS, timeOf } from "../filters.ts";
import { shownBy } from "./filters.ts";
import type { Seen } from "./seen.ts";
import { framed, loggedBytes } from "./streams.ts";

function seen(name: string, state: "running" | "exited" | "created", created: string): Seen {
  const config = { Labels: { app: name, all: "" }, ExposedPorts: { "80/tcp": {} } };
  return {
    record: {
      ...{
        id: `${name}00`,
        name,
        deployment: name,
        created,
        image: `${name}:1`,
        imageId: "sha256:12",
      },
      ...{ given: config, config, hostConfig: {}, endpoints: { net: {} }, anonymous: [] },
      mounts: [{
        Type: "volume",
        Name: "v",
        Source: "",
        Destination: "/d",
        Mode: "",
        RW: true,
        Propagation: "",
      }],
      source: { image: "", binds: [] },
    },
    status: {
      ...{ name, state: "running", image: "", ports: [], instances: [] },
      ...{ createdAt: created, updatedAt: created, warnings: [] },
    },
    instance: { id: `${name}-0`, state, restarts: 0, ...state === "exited" && { exitCode: 3 } },
  };
}

const ALL = [
  seen("aa", "running", "2026-01-01T00:00:00Z"),
  seen("bb", "exited", "2026-01-02T00:00:00Z"),
  seen("cc", "created", "2026-01-03T00:00:00Z"),
];

const names = (filters: Record<string, string[]>) =>
  shownBy(ALL, new Map(Object.entries(filters))).map(({ record }) => record.name);

Deno.test("docker API: filters of containers", () => {
  assert.deepEqual(names({ status: ["running", "created"] }), ["aa", "cc"]);
  assert.deepEqual(names({ exited: ["3"] }), ["bb"]);
  assert.deepEqual(names({ label: ["app=aa", "all"] }), ["aa"]);
  assert.deepEqual(names({ name: ["^/?b"] }), ["bb"]);
  assert.deepEqual(names({ ancestor: ["cc"] }), ["cc"]);
  assert.deepEqual(names({ ancestor: ["sha256:12"] }).length, 3);
  assert.deepEqual(names({ volume: ["/d"], network: ["net"] }).length, 3);
  assert.deepEqual(names({ expose: ["70-90", "1/udp"] }).length, 3);
  assert.deepEqual(names({ expose: ["80/udp"] }), []);
  assert.deepEqual(names({ before: ["bb"] }), ["aa"]);
  assert.deepEqual(names({ since: ["bb"] }), ["cc"]);
  assert.throws(() => names({ nope: ["1"] }), { code: "argument_invalid", message: /'nope'/ });
  assert.throws(() => names({ before: ["zz"] }), { code: "not_found" });
  const senseless = {
    ...{ status: "zz", health: "zz", exited: "a", publish: "x", expose: "1/zz", "is-task": "x" },
  };
  for (const [filter, value] of Object.entries(senseless)) {
    assert.throws(() => names({ [filter]: [value] }), {
      code: "argument_invalid",
      message: `invalid filter '${filter}=${value}'`,
    });
  }
});

Deno.test("docker API: filters of prune, labels and times", () => {
  const one = { created: "2026-01-02T00:00:00Z", labels: { a: "1" } };
  const prunes = (filters: Record<string, string[]>) =>
    filtered([one], new Map(Object.entries(filters)), PRUNE_TESTS).length === 1;
  assert.equal(prunes({ until: ["2026-01-03T00:00:00Z"] }), true);
  assert.equal(prunes({ until: ["2026-01-01T00:00:00Z"] }), false);
  assert.equal(prunes({ label: ["a=1"] }), true);
  assert.equal(prunes({ "label!": ["a"] }), false);
  assert.throws(() => prunes({ nope: [] }), { code: "argument_invalid" });
  assert.throws(() => prunes({ until: ["soon"] }), { code: "argument_invalid" });
  assert.equal(hasLabel({ a: "x=y" }, "a=x=y"), true);
  assert.equal(hasLabel(null, "a"), false);
  assert.equal(hasLabel({}, "constructor"), false);
  assert.equal(timeOf("1.5"), 1500);
  assert.ok(Math.abs(timeOf("10m") - (Date.now() - 600_000)) < 5000);
  assert.throws(() => timeOf("soon"), { code: "argument_invalid" });
});

Deno.test("docker API: frames of output, and modes of files as Go has them", () => {
  assert.deepEqual([...framed("stderr", new Uint8Array([7]))], [2, 0, 0, 0, 0, 0, 0, 1, 7]);
  const frame = { time: "T", instance: "a-0", stream: "stdout", line: "x" } as const;
  const text = (tty: boolean, timestamps: boolean) =>
    new TextDecoder().decode(loggedBytes(frame, { tty, timestamps }));
  assert.equal(text(true, true), "T x\n");
  assert.equal(text(false, false).slice(8), "x\n");
  assert.equal(goMode(0o100644), 0o644);
  assert.equal(goMode(0o041777), 2 ** 31 + 2 ** 20 + 0o777);
  assert.equal(goMode(0o120777), 2 ** 27 + 0o777);
});
