/** The agent with holders that a test steers: who may speak to it, what it holds, and what becomes of it. */
import assert from "node:assert/strict";
import { connect, createServer } from "node:net";
import { SvcError } from "../base/errors.ts";
import { permissionsOf } from "../base/fs.ts";
import { dirname } from "../base/path.ts";
import { openAgent } from "./client.ts";
import { isNewer } from "./protocol.ts";
import { startAgent } from "./start.ts";
import { Bench, described } from "./testing.ts";

Deno.test("agent: a hold starts it; status, the same again, another description, release, stop", async () => {
  await using bench = await Bench.open();
  const client = bench.client();
  assert.equal(await client.status(), undefined);
  assert.equal(await client.stop(), undefined);
  const first = await client.hold(described("web", { image: 1 }, "shop"));
  assert.deepEqual(first, { same: false, value: "works" });
  bench.attempts[0].context.shows(["./src -> /app"]);
  const [web] = (await client.status())!.held;
  assert.deepEqual({ ...web, since: "" }, {
    ...{ kind: "test", name: "web", project: "shop", server: "http://here", state: "connected" },
    ...{ since: "", holds: ["./src -> /app"] },
  });
  assert.equal((await client.hold(described("web", { image: 1 }, "shop"))).same, true);
  assert.equal((await client.hold(described("web", { image: 2 }, "shop"))).same, false);
  assert.equal(
    (await client.hold(described("web", { image: 2 }, "shop"), { again: true })).same,
    false,
  );
  assert.equal(bench.attempts.length, 3);
  await client.hold(described("db"));
  const released = await client.release({ place: "here", project: "shop" });
  assert.deepEqual(released.map(({ name }) => name), ["web"]);
  assert.deepEqual(await client.release({ place: "elsewhere" }), []);
  assert.deepEqual((await client.stop())!.map(({ name }) => name), ["db"]);
  assert.equal(await client.status(), undefined);
});

Deno.test("agent: only its user: folder and socket are closed to others, and the kernel is asked who it is", async () => {
  await using bench = await Bench.open();
  await bench.client().hold(described("web", { secret: "s3cret" }));
  await bench.attempts[0].context.keep({ token: "t0ken" });
  const mode = (path: string) => permissionsOf(Deno.statSync(path));
  assert.equal(mode(bench.place.folder), 0o700);
  assert.equal(mode(bench.place.socket), 0o600);
  assert.equal(mode(bench.place.records!), 0o700);
  for (const { name } of Deno.readDirSync(bench.place.records!)) {
    assert.equal(mode(`${bench.place.records}/${name}`), 0o600);
  }
  await bench.leave();
  bench.uidOf = () => Deno.uid()! + 1;
  void bench.run();
  await bench.attempt(1);
  const heard = await new Promise<number>((resolve) => {
    const dial = () => {
      let bytes = 0;
      const socket = connect(bench.place.socket);
      socket.on("data", (data) => bytes += data.length);
      socket.on("error", (error: Error & { code?: string }) => {
        if (error.code === "ENOENT" || error.code === "ECONNREFUSED") setTimeout(dial, 20);
      });
      socket.on("connect", () => socket.on("close", () => resolve(bytes)));
      socket.write('{"type":"stop"}\n');
    };
    dial();
  });
  assert.equal(heard, 0);
  assert.match(bench.lines.join("\n"), /user \d+ was refused/);
  assert.equal(bench.attempts[1].context.releasing.aborted, false);
});

Deno.test("agent: where others could have put the socket, nobody is dialled and nothing started", async () => {
  await using bench = await Bench.open();
  const { folder, socket } = bench.place;
  await Deno.mkdir(folder);
  await Deno.chmod(folder, 0o777);
  let dialled = 0;
  const other = createServer((connection) => {
    dialled++;
    connection.destroy();
  });
  await new Promise<void>((resolve) => other.listen(socket, resolve));
  const refused = { code: "denied", message: /other users may write to it/ };
  const env = { XDG_RUNTIME_DIR: dirname(folder) };
  const { signal } = new AbortController();
  await assert.rejects(openAgent({ env, signal }), refused);
  await assert.rejects(startAgent(bench.place, env), refused);
  await new Promise((resolve) => other.close(resolve));
  assert.equal(dialled, 0);
});

Deno.test("agent: what fails by itself is held again, and the others stay; what cannot be is failed", async () => {
  await using bench = await Bench.open();
  const client = bench.client();
  await client.hold(described("a"));
  await client.hold(described("b"));
  bench.attempts[0].end.reject(new SvcError("upstream_failed", "Cannot go on: the cable is cut"));
  const again = await bench.attempt(2);
  assert.equal(again.description.name, "a");
  // An error that nothing awaits belongs to whoever began it.
  bench.onAttempt = ({ context }) => {
    context.works("works");
    void (async () => {
      await new Promise((resolve) => setTimeout(resolve, 1));
      bench.onAttempt = ({ context }) => context.works("works");
      throw new Error("a defect");
    })();
  };
  again.end.reject(new Error("again"));
  const crashed = await bench.attempt(3);
  await bench.attempt(4);
  assert.equal(crashed.context.leaving.aborted, true, "the attempt that crashed is told to leave");
  assert.match(bench.lines.join("\n"), /an error that nothing handled: Error: a defect/);
  bench.attempts[4].end.reject(new SvcError("unauthorized", "Cannot go on: the token is revoked"));
  while ((await client.status())!.held[0].state !== "failed");
  const { held } = (await client.status())!;
  assert.deepEqual(held.map(({ name, state, detail }) => [name, state, detail]), [
    ["a", "failed", "Cannot go on: the token is revoked"],
    ["b", "connected", undefined],
  ]);
  assert.equal(bench.attempts.filter(({ description }) => description.name === "b").length, 1);
  assert.equal(
    (await client.hold(described("a"))).same,
    false,
    "asked for again, it is tried again",
  );
});

Deno.test("agent: a mistake in a new description loses nothing; one that never worked is not held", async () => {
  await using bench = await Bench.open();
  const client = bench.client();
  await client.hold(described("web", 1));
  const fail = () => {
    throw new SvcError("spec_invalid", "Cannot read it: nonsense");
  };
  bench.onAttempt = ({ description, context }) =>
    description.work === 1 ? context.works("as before") : fail();
  await assert.rejects(client.hold(described("web", 2)), { code: "spec_invalid" });
  await assert.rejects(client.hold(described("other", 2)), { message: "Cannot read it: nonsense" });
  const { description } = await bench.attempt(3);
  assert.deepEqual([description.name, description.work], ["other", 2]);
  const { held } = (await client.status())!;
  assert.deepEqual(held.map(({ name }) => name), ["web"]);
  assert.equal((await client.hold(described("web", 1))).same, true);
});

Deno.test("agent: a command that ends before it works takes it back", async () => {
  await using bench = await Bench.open();
  bench.onAttempt = () => {};
  await bench.client().status();
  const leaving = new AbortController();
  void bench.run();
  const client = new (await import("./client.ts")).AgentClient(
    { env: {}, signal: leaving.signal, build: bench.build, start: () => Promise.resolve() },
    bench.place,
  );
  const holding = client.hold(described("web"));
  const { context } = await bench.attempt(0);
  leaving.abort();
  await assert.rejects(holding);
  if (!context.releasing.aborted) {
    await new Promise((resolve) => context.releasing.addEventListener("abort", resolve));
  }
});

Deno.test("agent: the next one goes on with what is on record; a newer program replaces it", async () => {
  await using bench = await Bench.open();
  const client = bench.client();
  await client.hold(described("web", { image: 1 }));
  await bench.attempts[0].context.keep({ token: "t" });
  await bench.leave();
  assert.equal(bench.attempts[0].context.releasing.aborted, false, "nothing is ended");
  const { held, pid } = (await client.status())!;
  assert.equal(pid, Deno.pid);
  assert.deepEqual(held.map(({ name }) => name), ["web"]);
  assert.deepEqual((await bench.attempt(1)).context.kept, { token: "t" });
  bench.build = { version: "1.0.0", built: 5 };
  const newer = bench.client();
  assert.equal((await newer.status())!.agent.built, 5);
  assert.deepEqual((await bench.attempt(2)).context.kept, { token: "t" });
  assert.equal((await client.status())!.agent.built, 5, "an older program uses the newer agent");
  await newer.release({ place: "here" });
  await bench.leave();
  assert.equal(await newer.status(), undefined, "what was released is on no record");
});

Deno.test("agent: a stale socket, a spoilt record, two at once, an end when idle", async () => {
  await using bench = await Bench.open();
  await Deno.mkdir(bench.place.records!, { recursive: true, mode: 0o700 });
  await Deno.writeTextFile(bench.place.socket, "no socket");
  await Deno.writeTextFile(`${bench.place.records}/x.json`, '{"version": 7}');
  bench.idleMs = 1000;
  const [one, other] = await Promise.all([
    bench.client().hold(described("a")),
    bench.client().hold(described("b")),
  ]);
  assert.deepEqual([one.same, other.same], [false, false]);
  assert.equal(await bench.run(), false, "one agent a user");
  const { held } = (await bench.client().status())!;
  assert.deepEqual(held.map(({ name }) => name), ["a", "b"]);
  assert.match(bench.lines.join("\n"), /x\.json cannot be read/);
  for (const { end } of bench.attempts) end.resolve();
  // It holds nothing any more.
  while (await Deno.stat(bench.place.socket).catch(() => undefined)) {
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
});

Deno.test("agent: which program is newer", () => {
  const of = (version: string, built = 0) => ({ version, built });
  assert.equal(isNewer(of("1.10.0"), of("1.9.3", 5)), true);
  assert.equal(isNewer(of("1.9.3", 5), of("1.10.0")), false);
  assert.equal(isNewer(of("1.0.0", 2), of("1.0.0", 1)), true);
  assert.equal(isNewer(of("1.0.0", 1), of("1.0.0", 1)), false);
});
