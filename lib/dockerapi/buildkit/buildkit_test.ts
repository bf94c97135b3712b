import assert from "node:assert/strict";
import { SvcError } from "../../base/errors.ts";
import { asked } from "./attributes.ts";
import { refuseEntitlements } from "./built.ts";
import { mountIds } from "./lent.ts";
import { BuildSessions } from "./sessions.ts";
import { Solves } from "./solves.ts";
import { Trace } from "./trace.ts";
import { tunnelOf } from "./tunnel.ts";

const NAMES = { names: ["app:v1"] };

Deno.test("buildx's attributes become what a build asks for", () => {
  const { wish, folders, upload } = asked({
    ...{ "filename": "sub/Dockerfile", "target": "t", "platform": "linux/amd64", "no-cache": "" },
    ...{ "build-arg:A": "1", "build-arg:BUILDKIT_SYNTAX": "x", "label:l": "2" },
    ...{
      "image-resolve-mode": "pull",
      "force-network-mode": "none",
      "add-hosts": "a=1.2.3.4,b=5.6.7.8",
    },
    ...{ "context:img": "docker-image://base", "context:dir": "local:dir2", "vcs:source": "s" },
    ...{ "attest:provenance": "mode=min,inline-only=true", "cmdline": "docker/dockerfile:1" },
  }, { ...NAMES, imports: [{ type: "registry", attrs: { ref: "c" } }], exports: [] });
  assert.deepEqual(wish, {
    names: ["app:v1"],
    dockerfile: "sub/Dockerfile",
    target: "t",
    platform: "linux/amd64",
    buildArgs: { A: "1" },
    labels: { l: "2" },
    noCache: true,
    pull: true,
    network: "none",
    addHosts: ["a:1.2.3.4", "b:5.6.7.8"],
    cacheFrom: ["type=registry,ref=c"],
    cacheTo: [],
    attest: [],
    contexts: { img: "docker-image://base" },
    outputs: [],
  });
  assert.deepEqual([...folders], [["dir", "dir2"]]);
  assert.equal(upload, undefined);
  const archive = asked({ context: "http://buildkit-session/abc" }, NAMES);
  assert.equal(archive.upload, "/abc");
  assert.equal(archive.wish.remote, undefined);
  assert.equal(asked({ context: "https://x/y.git" }, NAMES).wish.remote, "https://x/y.git");
  const attested = asked({ "attest:sbom": "", "attest:provenance": "mode=max" }, NAMES);
  assert.deepEqual(attested.wish.attest, ["type=sbom", "type=provenance,mode=max"]);
});

Deno.test("buildx's attributes: what cannot be honoured is refused by its name", () => {
  const cases: [Record<string, string>, RegExp][] = [
    [{ "shm-size": "1" }, /shm-size=1/],
    [{ "ulimit": "nofile=1" }, /ulimit/],
    [{ "cgroup-parent": "x" }, /cgroup-parent/],
    [{ "no-cache": "a,b" }, /--no-cache-filter=a,b/],
    [{ "requestid": "frontend.outline" }, /--call=outline/],
    [{ "context:x": "oci-layout://y" }, /the context x=oci-layout/],
    [{ "anything": "else" }, /anything=else/],
  ];
  for (const [attributes, expected] of cases) {
    assert.throws(() => asked(attributes, NAMES), expected);
  }
  const local = [{ type: "local", attrs: { src: "x" } }];
  assert.throws(() => asked({}, { ...NAMES, imports: local }), /the cache type=local,src=x/);
  assert.throws(() => refuseEntitlements(["security.insecure"]), /--allow security.insecure/);
  refuseEntitlements([]);
});

Deno.test("a Dockerfile's secrets and agents, by their ids", () => {
  const text = `FROM a
RUN --mount=type=secret,id=one --mount=type=cache,target=/c x
RUN --mount=type=secret,target=/run/secrets/two --mount=type=ssh x
RUN --mount=type=secret,id=one,required --mount=id=key,type=ssh,target=/x x`;
  assert.deepEqual(mountIds(text, "secret"), ["one", "two"]);
  assert.deepEqual(mountIds(text, "ssh"), ["default", "key"]);
});

Deno.test("a build's events as BuildKit's vertexes", () => {
  const trace = new Trace("ref");
  const vertex = trace.message({ type: "vertex", id: "a", name: "RUN x" })!.vertexes![0];
  assert.match(vertex.digest, /^sha256:[0-9a-f]{64}$/);
  assert.equal(vertex.started, undefined);
  const started = trace.message({ type: "start", id: "a", time: "" })!.vertexes![0];
  assert.equal(started.digest, vertex.digest);
  const log = trace.message({ type: "output", id: "a", stream: "stderr", text: "e" })!.logs![0];
  assert.deepEqual([log.vertex, log.stream, new TextDecoder().decode(log.msg)], [
    vertex.digest,
    2,
    "e",
  ]);
  const moved = trace.message({ type: "progress", id: "a", label: "l", current: 2, total: 2 })!;
  assert.ok(moved.statuses![0].completed);
  const failed = trace.message({ type: "failed", id: "a", message: "no" })!.vertexes![0];
  assert.equal(failed.error, "no");
  assert.deepEqual(failed.started, started.started);
  assert.equal(trace.message({ type: "cached", id: "b" })!.vertexes![0].cached, true);
  assert.equal(
    trace.message({ type: "warning", message: "w" })!.warnings![0].vertex,
    vertex.digest,
  );
  assert.notEqual(
    new Trace("other").message({ type: "cached", id: "a" })!.vertexes![0].digest,
    vertex.digest,
  );
});

Deno.test("a solve: its status is read from the beginning to the end, by any number of readers", async () => {
  const solves = new Solves<string>();
  const run = solves.get("r");
  run.tell({ logs: [] });
  const { signal } = new AbortController();
  const reading = Array.fromAsync(run.status(signal));
  run.tell(undefined);
  run.tell({ vertexes: [] });
  run.request.resolve("asked");
  solves.end("r");
  assert.deepEqual(await reading, [{ logs: [] }, { vertexes: [] }]);
  assert.equal((await Array.fromAsync(solves.get("r").status(signal))).length, 2);
});

Deno.test("a solve that was refused: who asks for its status later is told its end", async () => {
  const solves = new Solves<string>();
  solves.get("r").request.reject(new SvcError("unsupported", "no"));
  solves.end("r");
  await new Promise((resolve) => setTimeout(resolve));
  const { signal } = new AbortController();
  assert.deepEqual(await Array.fromAsync(solves.get("r").status(signal)), []);
  await assert.rejects(solves.get("r").request.promise, /no/);
});

Deno.test("a build whose session does not come is told so when it gives up", async () => {
  const gone = new AbortController();
  const waiting = new BuildSessions().find("none", gone.signal);
  gone.abort(new SvcError("cancelled", "gone"));
  await assert.rejects(waiting, /gone/);
});

Deno.test("a connection within a call: bytes both ways, and its end", async () => {
  const sent: string[] = [];
  const gone = new AbortController();
  const encode = (text: string) => ({ data: new TextEncoder().encode(text) });
  async function* messages() {
    yield encode("a");
    yield encode("b");
  }
  const tunnel = tunnelOf({
    messages: messages(),
    send: ({ data }) => Promise.resolve(void sent.push(new TextDecoder().decode(data))),
    metadata: {},
    signal: gone.signal,
  });
  await new Promise((resolve) => tunnel.write("x", resolve));
  let read = "";
  tunnel.on("data", (data) => read += new TextDecoder().decode(data));
  await new Promise<void>((resolve) => tunnel.once("close", () => resolve()));
  assert.deepEqual([read, sent], ["ab", ["x"]]);
});
