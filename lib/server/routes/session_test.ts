import assert from "node:assert/strict";
import { SvcError } from "../../base/errors.ts";
import { exists } from "../../base/fs.ts";
import { type DeploySession, openDeploySession } from "../../client/deploy_session.ts";
import type { Resume } from "../../wire/attached/hello.ts";
import { FakeDeployments, GRACE_MS, startSessionServer } from "../sessions/testing.ts";
import { caller, open, opened, SPEC, until, withServer } from "../sessions/test_callers.ts";
import { RETRY_MS, STOPPED_MS } from "../sessions/session.ts";
import { STATUS } from "../testing.ts";
import { eventually } from "../../../test/waits.ts";

Deno.test("session: applied as a PUT is, on record before, removed when the caller ends it", () =>
  withServer(async (server, folder) => {
    const { deployments } = server;
    const record = `${folder}/sessions/web.json`;
    let recorded = false;
    deployments.onApply = async () => void (recorded = await exists(record));
    const told: unknown[] = [];
    const session = openDeploySession(server.client, { name: "web", spec: SPEC }, {
      signal: new AbortController().signal,
      onOpen: (name, graceMs) => told.push(name, graceMs),
      onProgress: (message) => told.push(message),
    });
    assert.deepEqual(await session.applied, {
      action: "created",
      deployment: deployments.statuses.get("web"),
    });
    assert.deepEqual(told, ["web", GRACE_MS, "pulling app:v1"]);
    assert.ok(recorded);
    assert.equal(deployments.applied[0].origin?.subject, "anonymous");
    const kept = JSON.parse(await Deno.readTextFile(record));
    assert.deepEqual([kept.name, kept.subject, kept.from], ["web", "anonymous", "127.0.0.1"]);
    assert.equal((await Deno.stat(record)).mode! & 0o777, 0o600);
    assert.equal(kept.spec, undefined, "the spec is needed only until it is applied");
    session.end();
    session.end();
    assert.equal(await session.closed, "ended");
    assert.deepEqual(deployments.deleted, ["web"]);
    assert.equal(await exists(record), false);
  }));

Deno.test("session: a spec as text; what is wrong with it is said with its place", () =>
  withServer(async ({ client, deployments }) => {
    const { signal } = new AbortController();
    const of = (text: string): DeploySession =>
      openDeploySession(client, { text, source: "app.yaml" }, { signal });
    const logins = { "registry.test": { username: "me", password: "hush" } };
    const text = "name: web\nimage: app:v1\n";
    const good = openDeploySession(client, { text, source: "app.yaml", logins }, { signal });
    assert.equal((await good.applied).deployment.name, "web");
    assert.deepEqual([...deployments.logins!], Object.entries(logins));
    good.end();
    await good.closed;
    await assert.rejects(
      of("name: web\n image: x").closed,
      /Cannot read app\.yaml: line 1, column/,
    );
    await assert.rejects(of("name: web\nimgae: x").applied, /image/);
    assert.equal(deployments.applied.length, 1);
  }));

Deno.test("session: names in use are refused, and nothing else takes a session's name", () =>
  withServer(async (server) => {
    const { client, base, deployments } = server;
    deployments.statuses.set("old", { ...STATUS, name: "old" });
    const { signal } = new AbortController();
    const of = (name: string) =>
      openDeploySession(client, { name, spec: { ...SPEC, name } }, { signal });
    await assert.rejects(of("old").applied, {
      code: "conflict",
      help: "svc rm old first, or deploy without --session",
    });
    const { one } = await opened(server);
    await assert.rejects(of("web").applied, (error: Error) => {
      assert.match(error.message, /a session of anonymous at 127\.0\.0\.1 holds it since 20/);
      return true;
    });
    const put = await fetch(`${base}/.svc/v1/deployments/web`, {
      method: "PUT",
      body: JSON.stringify({ ...SPEC, image: "app:v2" }),
    });
    assert.equal(put.status, 409);
    assert.match((await put.json()).detail, /Cannot deploy web: a session of anonymous/);
    assert.equal(deployments.applied.length, 1);
    await one.say({ type: "end" });
    await until(one, "ended");
    one.cut();
    // A deploy under way keeps the name from sessions, before the backend knows of it.
    const applying = Promise.withResolvers<void>();
    deployments.onApply = () => applying.promise;
    const other = fetch(`${base}/.svc/v1/deployments/web`, {
      method: "PUT",
      body: JSON.stringify(SPEC),
    });
    await deployments.until(() => deployments.applied.length === 2);
    await assert.rejects(of("web").applied, /there is a deployment of that name already/);
    applying.resolve();
    await (await other).body?.cancel();
  }));

Deno.test("session: a lost connection is resumed within the grace period", () =>
  withServer(async (server) => {
    const { timers, deployments } = server;
    const { one, resume } = await opened(server);
    one.cut();
    await timers.armed(GRACE_MS);
    for (const wrong of [{ ...resume, token: "0" }, { ...resume, name: "other" }]) {
      await assert.rejects(caller(server, wrong), { code: "not_found" });
    }
    using again = await caller(server, resume);
    assert.deepEqual(await again.next(), {
      type: "session",
      ...resume,
      graceMs: GRACE_MS,
    });
    assert.equal((await until(again, "result")).result.action, "created");
    assert.equal(timers.has(GRACE_MS), false);
    // By a third connection while the second seems to be there: the same caller, on another network.
    using third = await caller(server, resume);
    await until(third, "result");
    await again.attached.closed;
    assert.equal(timers.has(GRACE_MS), false);
    await third.say({ type: "end" });
    await until(third, "ended");
    assert.deepEqual(deployments.deleted, ["web"]);
    assert.equal(deployments.applied.length, 1);
  }));

Deno.test("session: nobody else resumes it, even with its token", () =>
  withServer(async (server) => {
    const { one, resume } = await opened(server);
    one.cut();
    await server.timers.armed(GRACE_MS);
    server.asks.subject = "mallory";
    await assert.rejects(caller(server, resume), { code: "not_found" });
    assert.equal(server.timers.has(GRACE_MS), true, "the grace period goes on");
    server.asks.subject = "anonymous";
    using again = await caller(server, resume);
    await until(again, "result");
  }));

Deno.test("session: one that is not resumed ends with the grace period", () =>
  withServer(async (server, folder) => {
    const { timers, deployments } = server;
    const { one, resume } = await opened(server);
    one.cut();
    await timers.fire(GRACE_MS);
    await deployments.until(() => deployments.deleted.length === 1);
    assert.ok(await server.lifecycle.idle(60_000));
    assert.equal(await exists(`${folder}/sessions/web.json`), false);
    await assert.rejects(caller(server, resume), (error) => {
      assert.ok(error instanceof SvcError);
      assert.equal(error.code, "not_found");
      assert.match(error.help, /not resumed in time/);
      return true;
    });
  }));

Deno.test("session: one that is resumed while it is removed was not resumed in time", () =>
  withServer(async (server) => {
    const { timers, deployments } = server;
    const { one, resume } = await opened(server);
    const [removing, removed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    deployments.onDelete = () => (removing.resolve(), removed.promise);
    one.cut();
    await timers.fire(GRACE_MS);
    await removing.promise;
    using late = await caller(server, resume);
    await until(late, "session");
    removed.resolve();
    const { error } = await until(late, "error");
    assert.match(JSON.stringify(error), /not resumed in time, and its deployment is removed/);
  }));

Deno.test("session: the client resumes by itself, and ends what it resumed", () =>
  withServer(async (server) => {
    const { client, deployments } = server;
    const sockets: WebSocket[] = [];
    const told: string[] = [];
    const resumed = Promise.withResolvers<void>();
    const session = openDeploySession(
      {
        ...client,
        socket: async (...args) => {
          sockets.push(await client.socket(...args));
          return sockets.at(-1)!;
        },
      },
      { name: "web", spec: SPEC },
      {
        signal: new AbortController().signal,
        onLost: () => told.push("lost"),
        onResumed: () => {
          told.push("resumed");
          resumed.resolve();
        },
      },
    );
    await session.applied;
    sockets[0].close();
    await resumed.promise;
    assert.deepEqual(told, ["lost", "resumed"]);
    session.end();
    assert.equal(await session.closed, "ended");
    assert.equal(sockets.length, 2);
    assert.deepEqual(deployments.deleted, ["web"]);
  }));

Deno.test("session: an apply goes on while its caller is away, and its failure waits for them", () =>
  withServer(async (server) => {
    const { timers, deployments } = server;
    const applying = Promise.withResolvers<void>();
    deployments.onApply = () => applying.promise;
    const one = await caller(server);
    await one.say(open);
    const { token } = await until(one, "session");
    await until(one, "progress");
    one.cut();
    await timers.armed(GRACE_MS);
    applying.reject(new Error("no room"));
    using again = await caller(server, { name: "web", token });
    await until(again, "session");
    const event = await again.next();
    assert.equal(event?.type === "error" && event.error.code, "internal");
    // What a failed apply may have left is removed, and the name is free again.
    assert.deepEqual(deployments.deleted, ["web"]);
    deployments.onApply = undefined;
    const { one: next } = await opened(server);
    next.cut();
  }));

Deno.test("session: ended in the middle of an apply, which is cancelled", () =>
  withServer(async (server) => {
    const { deployments } = server;
    deployments.onApply = (_spec, signal) =>
      new Promise((_, reject) => signal!.addEventListener("abort", () => reject(signal!.reason)));
    using one = await caller(server);
    await one.say(open);
    await until(one, "progress");
    await one.say({ type: "end" });
    await until(one, "ended");
    assert.deepEqual(deployments.deleted, ["web"]);
  }));

Deno.test("session: the deployment's own end, and its removal by somebody else, are told", () =>
  withServer(async (server) => {
    const { deployments, timers } = server;
    const { one } = await opened(server);
    const running = deployments.statuses.get("web")!;
    const over = {
      ...STATUS,
      state: "failed" as const,
      instances: [{ id: "web-0", state: "exited" as const, exitCode: 3, restarts: 0 }],
    };
    // A restart is due: it goes on.
    const asked = deployments.asked();
    deployments.set({ ...over, state: "pending" });
    await asked;
    // Somebody restarts it with the engine's own command.
    deployments.set(over);
    await timers.armed(STOPPED_MS);
    deployments.set(running);
    await eventually("it is seen to run", () => !timers.has(STOPPED_MS));
    deployments.set(over);
    await timers.fire(STOPPED_MS);
    assert.deepEqual(await until(one, "exited"), { type: "exited", deployment: over });
    assert.deepEqual(deployments.deleted, []);
    deployments.remove("web");
    assert.deepEqual(await one.next(), { type: "gone" });
    one.cut();
  }));

Deno.test("session: a caller that ends it is not told of instances that the removal ends", () =>
  withServer(async (server) => {
    const { deployments } = server;
    const { one } = await opened(server);
    const [looking, looked, removing, removed] = Array.from(
      { length: 4 },
      () => Promise.withResolvers<void>(),
    );
    deployments.onStatus = () => (looking.resolve(), looked.promise);
    deployments.onDelete = () => (removing.resolve(), removed.promise);
    deployments.set(deployments.statuses.get("web")!);
    await looking.promise;
    await one.say({ type: "end" });
    await removing.promise;
    const instances = [{ id: "web-0", state: "exited" as const, exitCode: 137, restarts: 0 }];
    deployments.statuses.set("web", { ...STATUS, state: "failed", instances });
    const asked = deployments.asked();
    looked.resolve();
    await asked;
    removed.resolve();
    assert.deepEqual(await one.next(), { type: "ended" });
    one.cut();
  }));

Deno.test("session: the removal of what has no instance is told too", () =>
  withServer(async (server) => {
    const { one } = await opened(server);
    // Of this one no event tells.
    await fetch(`${server.base}/.svc/v1/deployments/web`, { method: "DELETE" });
    assert.deepEqual(await one.next(), { type: "gone" });
    one.cut();
  }));

Deno.test("session: what happened while the engine was lost is seen when it is back", () =>
  withServer(async (server) => {
    const { timers, deployments } = server;
    const { one } = await opened(server);
    deployments.lose();
    // Nobody is told of it.
    deployments.statuses.delete("web");
    assert.deepEqual(await one.next(), { type: "gone" });
    one.cut();
    const { one: next } = await opened(server);
    // The status cannot be had when the event comes.
    deployments.onStatus = () => Promise.reject(new Error("busy"));
    deployments.remove("web");
    await timers.armed(RETRY_MS);
    deployments.onStatus = undefined;
    await timers.fire(RETRY_MS);
    assert.deepEqual(await next.next(), { type: "gone" });
    next.cut();
  }));

Deno.test("session: survives a restart of the server for the grace period", async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-session-" });
  try {
    const deployments = new FakeDeployments();
    let resume: Resume;
    {
      await using first = await startSessionServer(folder, deployments);
      ({ resume } = await opened(first));
    }
    assert.deepEqual(deployments.deleted, []);
    {
      await using second = await startSessionServer(folder, deployments);
      using again = await caller(second, resume);
      assert.equal((await until(again, "result")).result.action, "unchanged");
      assert.equal(second.timers.has(GRACE_MS), false);
    }
    assert.deepEqual([deployments.applied.length, deployments.deleted.length], [1, 0]);
    await using third = await startSessionServer(folder, deployments);
    await third.timers.fire(GRACE_MS);
    await deployments.until(() => deployments.deleted.length === 1);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("session: an apply that a crash cut off is made good by who resumes it", async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-session-" });
  try {
    let record = "";
    const token = "secret";
    {
      const deployments = new FakeDeployments();
      deployments.onApply = async () => {
        record = await Deno.readTextFile(`${folder}/sessions/web.json`);
      };
      await using first = await startSessionServer(folder, deployments);
      const { one } = await opened(first);
      await one.say({ type: "end" });
      await until(one, "ended");
      one.cut();
    }
    // As it was at that moment, with a secret that the test knows.
    const { sha256 } = await import("../../base/hash.ts");
    const kept = { ...JSON.parse(record), token: await sha256(token) };
    await Deno.writeTextFile(`${folder}/sessions/web.json`, JSON.stringify(kept));
    // Rubbish beside it hurts nobody.
    await Deno.writeTextFile(`${folder}/sessions/torn.json`, "{");
    await Deno.writeTextFile(`${folder}/sessions/other.json`, JSON.stringify(kept));
    await Deno.writeTextFile(`${folder}/sessions/web.json.tmp-1`, "{");
    await using second = await startSessionServer(folder);
    assert.equal(await exists(`${folder}/sessions/web.json.tmp-1`), false);
    using one = await caller(second, { name: "web", token });
    assert.equal((await until(one, "result")).result.action, "created");
    assert.equal(second.deployments.applied[0].origin?.subject, "anonymous");
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("session: a removal that fails is tried again, and keeps the name until then", () =>
  withServer(async (server) => {
    const { timers, deployments } = server;
    const { one } = await opened(server);
    deployments.onDelete = () => Promise.reject(new Error("busy"));
    await one.say({ type: "end" });
    const event = await one.next();
    assert.equal(event?.type, "error");
    one.cut();
    const retry = openDeploySession(server.client, { name: "web", spec: SPEC }, {
      signal: new AbortController().signal,
    });
    await assert.rejects(retry.applied, /whose connection is lost, holds it/);
    deployments.onDelete = undefined;
    await timers.fire(RETRY_MS);
    await deployments.until(() => deployments.deleted.length === 1);
  }));
