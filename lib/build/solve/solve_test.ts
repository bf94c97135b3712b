import assert from "node:assert/strict";
import { SvcError } from "../../base/errors.ts";
import type { Snapshotter } from "../../snapshot/snapshotter.ts";
import { lstat } from "../../sys/files.ts";
import type { CopyVertex, RunVertex } from "../plan/graph.ts";
import { CacheMounts } from "./cache_mounts.ts";
import { commandFailed, OutputTail, stepFailed } from "./failure.ts";
import { Flights } from "../../base/flights.ts";
import { copyKey, runKey, SCRATCH_KEY, workdirKey } from "./keys.ts";
import { makeMountPoints } from "./mountpoints.ts";
import { CacheRecords } from "./records.ts";

const RUN: RunVertex = {
  kind: "run",
  id: "v1",
  name: "[stage 1/1] RUN make",
  stage: "stage",
  line: 7,
  text: "RUN make",
  base: "scratch",
  args: ["/bin/sh", "-c", "make"],
  env: ["PATH=/bin"],
  hiddenEnv: [],
  workingDir: "/",
  user: "",
  network: "default",
  needs: [],
  devices: [],
  hosts: [],
  mounts: [{ type: "bind", from: "context", source: "/src", target: "/src", writable: false }],
  platform: { os: "linux", architecture: "amd64" },
};

const COPY: CopyVertex = {
  kind: "copy",
  id: "v2",
  name: "COPY a /b",
  text: "COPY a /b",
  instruction: "COPY",
  base: "scratch",
  parts: [{ from: "context", sources: ["a"], unpack: false }],
  inline: [],
  destination: "/b",
  parents: false,
  exclude: [],
  link: false,
};

async function inTemporary(work: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-solve-" });
  try {
    await work(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("keys change with what the result depends on, and with nothing else", () => {
  const of = (change: Partial<RunVertex>, input = "content", base = "base", epoch?: number) =>
    runKey({ ...RUN, ...change }, base, () => input, epoch);
  const plain = of({});
  assert.equal(of({ id: "other", name: "other", line: 9, text: "RUN  make" }), plain);
  assert.equal(of({ hiddenEnv: ["HTTP_PROXY=http://p"] }), plain, "proxies are no part of it");
  const different = [
    of({ args: ["make"] }),
    of({ env: ["PATH=/bin", "A=1"] }),
    of({ workingDir: "/w" }),
    of({ user: "app" }),
    of({ network: "none" }),
    of({ mounts: [] }),
    of({ needs: ["security.insecure"] }),
    of({ devices: [{ name: "vendor.example/class", required: true }] }),
    of({ hosts: [{ name: "db", address: "10.0.0.1" }] }),
    of({ script: { name: "EOF", data: "#!/bin/sh\n" } }),
    of({ platform: { os: "linux", architecture: "arm64" } }),
    of({}, "other content"),
    of({}, "content", "other base"),
    of({}, "content", "base", 0),
    SCRATCH_KEY,
  ];
  assert.equal(new Set([plain, ...different]).size, different.length + 1);
  const copies = [
    copyKey(COPY, "base", "content"),
    copyKey({ ...COPY, destination: "/b/" }, "base", "content"),
    copyKey({ ...COPY, chown: "1" }, "base", "content"),
    copyKey({ ...COPY, link: true }, "base", "content"),
    copyKey({ ...COPY, inline: [{ name: "x", data: "y" }] }, "base", "content"),
    copyKey(COPY, "base", "other"),
    copyKey(COPY, "other", "content"),
  ];
  assert.equal(new Set(copies).size, copies.length);
  assert.equal(
    copyKey(
      {
        ...COPY,
        parts: [{ from: "context", sources: ["./a"], unpack: false }],
        text: "COPY ./a /b",
      },
      "base",
      "content",
    ),
    copies[0],
  );
  const workdir = { ...COPY, kind: "workdir" as const, path: "/w", user: "" };
  assert.notEqual(workdirKey(workdir, "base"), workdirKey({ ...workdir, user: "app" }, "base"));
});

Deno.test("flights: one execution, every caller hears it, the last to leave cancels it", async () => {
  const flights = new Flights<number, string>();
  let starts = 0;
  let seen: AbortSignal | undefined;
  const gate = Promise.withResolvers<number>();
  const heard: string[] = [];
  const join = (signal: AbortSignal, who: string) =>
    flights.join("key", (inner, emit) => {
      starts++;
      seen = inner;
      emit("begun");
      inner.addEventListener("abort", () =>
        gate.reject(inner.reason));
      return gate.promise;
    }, (event) =>
      heard.push(`${who} ${event}`), signal);
  const [a, b] = [new AbortController(), new AbortController()];
  const first = join(a.signal, "a");
  const second = join(b.signal, "b");
  assert.deepEqual([first.joined, second.joined, first.shared()], [false, true, true]);
  await Promise.resolve();
  a.abort(new Error("a left"));
  await assert.rejects(first.result, /a left/);
  assert.equal(seen!.aborted, false);
  assert.equal(second.shared(), false);
  const cancelled = seen!;
  b.abort(new Error("b left"));
  const third = join(new AbortController().signal, "c");
  await assert.rejects(second.result, /b left/);
  assert.equal(cancelled.aborted, true, "nobody waits for it");
  assert.equal(third.joined, false, "what is being cancelled is not joined");
  await assert.rejects(third.result);
  await flights.idle();
  assert.equal(starts, 2);
  assert.deepEqual(heard, ["a begun", "b begun", "c begun"]);
  const failing = flights.join(
    "other",
    () => Promise.reject(new Error("no")),
    () => {},
    new AbortController().signal,
  );
  await assert.rejects(failing.result, /no/);
  await failing.ended;
  const aborted = AbortSignal.abort(new Error("before"));
  await assert.rejects(flights.join("x", () => gate.promise, () => {}, aborted).result, /before/);
});

Deno.test("records: a missing snapshot or a torn file is a miss, the sweep keeps what is named", () =>
  inTemporary(async (folder) => {
    const names = new Set(["build-kept", "build-lost", "build-child", "sha256:image"]);
    const removed: string[] = [];
    const snapshotter = {
      stat: (name: string) => Promise.resolve(names.has(name) ? { name } : undefined),
      touch: () => Promise.resolve(),
      async *list() {
        let created = 0;
        for (const name of names) yield { name, kind: "committed", created: new Date(created++) };
      },
      remove(name: string) {
        if (name === "build-lost" && names.has("build-child")) {
          throw new SvcError("conflict", `Cannot remove ${name}: others are built on it`);
        }
        names.delete(name);
        removed.push(name);
        return Promise.resolve();
      },
    } as unknown as Snapshotter;
    const records = await CacheRecords.open(folder, snapshotter);
    const record = { version: 1 as const, key: "k1", snapshot: "build-kept", created: 5 };
    await records.put(record);
    await records.put({ ...record, key: "k2", snapshot: "build-gone" });
    const blob = {
      descriptor: { mediaType: "m", digest: "sha256:d", size: 1 },
      diffID: "sha256:e",
    };
    await records.setBlob("k1", "build-other", "gzip-4", blob);
    assert.deepEqual(await records.find("k1"), record);
    await records.setBlob("k1", "build-kept", "gzip-4", blob);
    assert.deepEqual((await records.find("k1"))?.blobs, { "gzip-4": blob });
    assert.equal(await records.find("k2"), undefined);
    assert.equal(await records.find("k3"), undefined);
    assert.equal(await records.sweep(), 2);
    assert.deepEqual(removed, ["build-child", "build-lost"], "children first");
    assert.deepEqual([...names], ["build-kept", "sha256:image"]);
  }));

Deno.test("records: what a power cut leaves of one is a miss, with the server running and after", () =>
  inTemporary(async (folder) => {
    const snapshotter = {
      stat: (name: string) => Promise.resolve({ name }),
      touch: () => Promise.resolve(),
    } as unknown as Snapshotter;
    const open = () => CacheRecords.open(folder, snapshotter);
    const key = (digit: string) => digit.repeat(64);
    const record = { version: 1 as const, key: key("1"), snapshot: "build-one", created: 5 };
    const step = `${folder}/steps/${record.key}`, link = `${folder}/links/${key("3")}`;
    const other = { ...record, key: key("2"), snapshot: "build-other" };
    let records = await open();
    await records.put(other);
    await records.putLink(key("4"), "other");
    const damages: Record<string, (path: string, other: string) => Promise<void>> = {
      "nothing in it": (path) => Deno.truncate(path),
      "its first half": (path) => Deno.truncate(path, Math.floor(Deno.statSync(path).size / 2)),
      zeros: (path) => Deno.writeFile(path, new Uint8Array(Deno.statSync(path).size)),
      "bytes of another file": (path, other) => Deno.copyFile(other, path),
      "no record": (path) => Deno.writeTextFile(path, "null"),
      "values of other types": (path) => Deno.writeTextFile(path, '{"key":[],"to":7}'),
      "a folder in its place": async (path) => {
        await Deno.remove(path);
        await Deno.mkdir(path);
      },
      "only its temporary file": (path) => Deno.rename(path, `${path}.tmp-1`),
    };
    for (const [how, damage] of Object.entries(damages)) {
      for (const running of [true, false]) {
        await records.put(record);
        await records.putLink(key("3"), "to");
        const found = [await records.find(record.key), await records.link(key("3"))];
        assert.deepEqual(found, [record, "to"], how);
        await damage(step, `${folder}/steps/${other.key}`);
        await damage(link, `${folder}/links/${key("4")}`);
        if (!running) records = await open();
        assert.equal(await records.find(record.key), undefined, how);
        assert.equal(await records.link(key("3")), undefined, how);
      }
    }
    assert.deepEqual(await records.find(other.key), other);
    assert.equal(await records.link(key("4")), "other");
    const kept = ["steps", "links"].map((kind) => [...Deno.readDirSync(`${folder}/${kind}`)]);
    assert.deepEqual(kept.map((entries) => entries.map(({ name }) => name)), [
      [other.key],
      [key("4")],
    ]);
    // One that is older names what was that step's result then, and is as good.
    await records.put({ ...record, snapshot: "build-new" });
    await Deno.writeTextFile(step, JSON.stringify(record));
    assert.deepEqual(await (await open()).find(record.key), record);
  }));

Deno.test("errors of steps keep the last output and say where", () => {
  const tail = new OutputTail();
  for (let i = 0; i < 30_000; i++) tail.push(new TextEncoder().encode(`line ${i}\n`));
  assert.equal(new TextEncoder().encode(tail.text()).length, 64 * 1024);
  assert.ok(tail.text().endsWith("line 29999\n"));
  const failed = commandFailed("Dockerfile", RUN, 2, "words");
  assert.equal(failed.message, "Cannot build Dockerfile:7: RUN make: exit code 2");
  assert.equal(stepFailed("Dockerfile", RUN, failed), failed);
  const full = Object.assign(new Error("no space left on device"), { code: "ENOSPC" });
  const wrapped = stepFailed("Dockerfile", RUN, full) as SvcError;
  assert.equal(wrapped.code, "storage_full");
  assert.match(wrapped.message, /^Cannot build Dockerfile:7: RUN make: no space left/);
  const user = new SvcError("argument_invalid", "Cannot use user x: no such name");
  assert.equal((stepFailed("Dockerfile", RUN, user) as SvcError).code, "build_failed");
  const abort = new DOMException("gone", "AbortError");
  assert.equal(stepFailed("Dockerfile", RUN, abort), abort);
});

Deno.test("mount points are made, and taken away without a trace", () =>
  inTemporary(async (root) => {
    await Deno.mkdir(`${root}/etc`);
    await Deno.mkdir(`${root}/real`);
    await Deno.symlink("/real/below", `${root}/linked`);
    await Deno.writeTextFile(`${root}/etc/there`, "kept");
    await Deno.utime(`${root}/etc`, 100, 100);
    const points = makeMountPoints(root, [
      { target: "/proc", kind: "directory" },
      { target: "/etc/resolv.conf", kind: "file" },
      { target: "/etc/there", kind: "file" },
      { target: "/a/b/c", kind: "directory" },
      { target: "/used/cache", kind: "directory" },
      { target: "/linked", kind: "directory" },
    ]);
    assert.ok(Deno.statSync(`${root}/etc/resolv.conf`).isFile);
    assert.ok(Deno.statSync(`${root}/a/b/c`).isDirectory);
    assert.ok(Deno.statSync(`${root}/real/below`).isDirectory, "links stay inside the root");
    await Deno.writeTextFile(`${root}/used/made-by-step`, "x");
    points.remove();
    assert.deepEqual([...Deno.readDirSync(root)].map(({ name }) => name).sort(), [
      "etc",
      "linked",
      "real",
      "used",
    ]);
    assert.deepEqual([...Deno.readDirSync(`${root}/etc`)].map(({ name }) => name), ["there"]);
    assert.deepEqual([...Deno.readDirSync(`${root}/used`)].map(({ name }) => name), [
      "made-by-step",
    ]);
    assert.equal(lstat(`${root}/etc`).mtime, 100);
    assert.throws(() => makeMountPoints(root, [{ target: "/etc/there", kind: "directory" }]), {
      code: "build_failed",
    });
  }));

Deno.test("cache mounts: shared, private and locked", () =>
  inTemporary(async (folder) => {
    const caches = new CacheMounts(folder);
    const mount = {
      type: "cache" as const,
      id: "c",
      from: "scratch" as const,
      source: "/",
      target: "/c",
      readOnly: false,
      mode: 0o750,
      uid: Deno.uid()!,
      gid: Deno.gid()!,
    };
    const hold = (sharing: "shared" | "private" | "locked", id = "c") =>
      caches.hold({ ...mount, id, sharing }, undefined);
    const [one, two] = await Promise.all([hold("shared"), hold("shared")]);
    assert.equal(one.path, two.path);
    assert.equal(lstat(one.path).mode & 0o7777, 0o750);
    const [p, q] = [await hold("private"), await hold("private")];
    assert.notEqual(p.path, q.path);
    p[Symbol.dispose]();
    assert.equal((await hold("private")).path, p.path, "a private cache is used again");
    const first = await hold("locked", "l");
    let got = false;
    const second = hold("locked", "l").then((held) => {
      got = true;
      return held;
    });
    await new Promise((resolve) => setTimeout(resolve, 20));
    assert.equal(got, false);
    first[Symbol.dispose]();
    assert.equal((await second).path, first.path);
  }));
