import assert from "node:assert/strict";
import type { BuildEvent } from "../../api/build.ts";
import type { Problem } from "../../api/problem.ts";
import { tarHeader } from "../../oci/tar_write.ts";
import type { Progress } from "../messages.ts";
import { ClassicStream } from "./classic.ts";
import { wishOf } from "./parameters.ts";
import { wholeArchive } from "./whole_archive.ts";
import { NO_WISH, queryOf } from "./wish.ts";

const OWN = { own: ["127.0.0.1:5000"], pullHost: "127.0.0.1:5000" };

function wish(parameters: Record<string, string | string[]>) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(parameters)) {
    for (const each of [value].flat()) query.append(key, each);
  }
  return wishOf({ query, flag: (name) => query.get(name) === "1" });
}

/** What docker's own client sends with every build. */
const ALWAYS = {
  ...{ buildargs: "{}", cachefrom: "[]", cgroupparent: "", cpuperiod: "0", cpuquota: "0" },
  ...{ cpusetcpus: "", cpusetmems: "", cpushares: "0", dockerfile: "Dockerfile", labels: "{}" },
  ...{ memory: "0", memswap: "0", networkmode: "default", rm: "1", shmsize: "0", target: "" },
  ...{ ulimits: "null", version: "1" },
};

Deno.test("a classic build: docker's parameters become svc's", () => {
  const given = wish({
    ...ALWAYS,
    t: ["app:v1", "ghcr.io/x/y", "localhost:5001/z:1"],
    buildargs: '{"A":"1","FROM_HERE":null}',
    labels: '{"l":"x=y"}',
    nocache: "1",
    pull: "1",
    target: "stage",
    networkmode: "none",
    extrahosts: "a:10.0.0.1,b:10.0.0.2",
    cachefrom: '["cache:v1"]',
  });
  assert.deepEqual([...queryOf(given, OWN)], [
    ["t", "127.0.0.1:5000/app:v1"],
    ["t", "127.0.0.1:5000/ghcr.io/x/y:latest"],
    ["t", "127.0.0.1:5000/localhost__5001/z:1"],
    ["dockerfile", "Dockerfile"],
    ["target", "stage"],
    ["nocache", "true"],
    ["pull", "true"],
    ["network", "none"],
    ["buildarg", "A=1"],
    ["label", "l=x=y"],
    ["addhost", "a:10.0.0.1"],
    ["addhost", "b:10.0.0.2"],
    ["cachefrom", "type=registry,ref=cache:v1"],
  ]);
});

Deno.test("a build without a name is kept under one that lists do not show", () => {
  const [tag] = queryOf(NO_WISH, OWN).getAll("t");
  assert.match(tag, /^127\.0\.0\.1:5000\/svc-unnamed:[0-9a-f-]{36}$/);
  assert.deepEqual(queryOf({ ...NO_WISH, outputs: ["type=tar"] }, OWN).getAll("t"), []);
});

Deno.test("a build: what cannot be honoured is refused by its name", () => {
  const cases: [Record<string, string>, RegExp][] = [
    [{ memory: "1000" }, /memory=1000/],
    [{ ulimits: '[{"Name":"nofile"}]' }, /ulimits/],
    [{ buildargs: "5" }, /invalid buildargs: expected strings by their names/],
    [{ labels: "[1]" }, /invalid labels: /],
    [{ cachefrom: "5" }, /invalid cachefrom: expected a list of strings/],
    [{ extrahosts: "[" }, /invalid extrahosts: it is not JSON/],
    [{ squash: "1" }, /squash/],
    [{ networkmode: "host" }, /the host's network/],
    [{ networkmode: "mine" }, /the network mine/],
    [{ buildargs: "{" }, /invalid buildargs/],
    [{ t: `app@sha256:${"a".repeat(64)}` }, /it has a digest/],
  ];
  for (const [parameters, expected] of cases) {
    assert.throws(() => queryOf(wish({ ...ALWAYS, ...parameters }), OWN), expected);
  }
});

function told(events: BuildEvent[], quiet = false): Progress[] {
  const messages: Progress[] = [];
  const stream = new ClassicStream((message) => messages.push(message), { quiet, names: ["app"] });
  for (const event of events) stream.event(event);
  return messages;
}

const RESULT: BuildEvent = {
  type: "result",
  result: {
    ...{ digest: "sha256:d", imageId: `sha256:${"1".repeat(64)}`, names: [], size: 1 },
    ...{ ran: 1, cached: 0, durationMs: 1 },
  },
};

Deno.test("a classic build: its stream, and that of a quiet one", () => {
  const events: BuildEvent[] = [
    { type: "vertex", id: "a", name: "RUN x" },
    { type: "start", id: "a", time: "" },
    { type: "output", id: "a", stream: "stdout", text: "out\n" },
    RESULT,
  ];
  const id = `sha256:${"1".repeat(64)}`;
  assert.deepEqual(told(events), [
    { stream: "Step 1 : RUN x\n" },
    { stream: "out\n" },
    { aux: { ID: id } },
    { stream: "Successfully built 111111111111\n" },
    { stream: "Successfully tagged app:latest\n" },
  ]);
  assert.deepEqual(told(events, true), [{ stream: `${id}\n` }]);
  const problem: Problem = {
    title: "",
    status: 422,
    detail: "Cannot build",
    code: "build_failed",
    help: "",
  };
  assert.throws(() => told([{ type: "error", error: problem }]), /Cannot build/);
});

Deno.test("a context whose end docker's client leaves away gets it; others stay as they are", async () => {
  const header = tarHeader({ path: "a", type: "file", size: 3 });
  const read = async (...parts: Uint8Array[]) =>
    (await Array.fromAsync(wholeArchive(ReadableStream.from(parts)))).map(({ length }) => length);
  const content = new Uint8Array(3);
  assert.deepEqual(await read(header.subarray(0, 100), header.subarray(100), content), [
    ...[100, 412, 3, 509, 1024],
  ]);
  assert.deepEqual(await read(header, content, new Uint8Array(509)), [512, 3, 509]);
  const gzip = new Uint8Array(700).fill(0x1f);
  assert.deepEqual(await read(gzip), [700]);
});
