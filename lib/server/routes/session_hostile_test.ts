import assert from "node:assert/strict";
import { GRACE_MS } from "../sessions/testing.ts";
import { caller, opened, until, withServer } from "../sessions/test_callers.ts";

Deno.test("session: hostile lines are refused; a session that had begun is as good as lost", () =>
  withServer(async (server) => {
    const { timers, deployments } = server;
    const bad: [unknown, string][] = [
      [null, "argument_invalid"],
      [[], "argument_invalid"],
      ["open", "argument_invalid"],
      [{ type: "open" }, "argument_invalid"],
      [{ type: "open", text: 7 }, "argument_invalid"],
      [{ type: "open", text: "a", source: "x".repeat(5000) }, "argument_invalid"],
      [{ type: "open", spec: { name: "web", image: "a" }, until: "later" }, "argument_invalid"],
      [{ type: "open", text: "x".repeat((4 << 20) + 1) }, "argument_invalid"],
      [{ type: "open", spec: null }, "spec_invalid"],
      [{ type: "open", spec: { name: "../x", image: "a" } }, "spec_invalid"],
      [{ type: "resume" }, "argument_invalid"],
      [{ type: "end" }, "argument_invalid"],
    ];
    for (const [line, code] of bad) {
      using one = await caller(server);
      await one.say(line);
      const event = await one.next();
      assert.equal(
        event?.type === "error" && event.error.code,
        code,
        JSON.stringify(line)?.slice(0, 80),
      );
      assert.equal(await one.next(), undefined);
    }
    for (const text of ["{\n", "\xff\xfe\n", "x".repeat(9 << 20)]) {
      using one = await caller(server);
      // It may hang up before all of it is sent.
      const sent = one.stream.write(Uint8Array.from(text, (c) => c.charCodeAt(0))).catch(() => {});
      const event = await one.next();
      assert.equal(
        event?.type === "error" && event.error.code,
        "argument_invalid",
        text.slice(0, 9),
      );
      one.cut();
      await sent;
    }
    assert.deepEqual(deployments.applied, []);
    const { one } = await opened(server);
    await one.say({ type: "apply" });
    assert.equal((await one.next())?.type, "error");
    await timers.armed(GRACE_MS);
    one.cut();
    assert.deepEqual(deployments.deleted, []);
  }));

Deno.test("session: who cannot upgrade, or opens more than one stream, is told", () =>
  withServer(async (server) => {
    const response = await fetch(`${server.base}/.svc/v1/session`);
    assert.equal(response.status, 400);
    assert.match((await response.json()).help, /svc deploy --session/);
    const { one } = await opened(server);
    const second = one.attached.open("deploy");
    await second.write(new TextEncoder().encode("{}\n"));
    await assert.rejects(second.read());
    await one.say({ type: "end" });
    await until(one, "ended");
    one.cut();
  }));

Deno.test("session: a server that ends waits for no caller who says nothing", () =>
  withServer(async (server) => {
    const silent = await caller(server);
    const half = await caller(server);
    await half.stream.write(new TextEncoder().encode("{"));
    const refused = await caller(server);
    await refused.say("nonsense");
    assert.equal((await refused.next())?.type, "error");
    server.lifecycle.drain();
    // Less than callers have to speak up and to hang up.
    assert.ok(await server.lifecycle.idle(20_000));
    await Promise.all([silent, half, refused].map(({ attached }) => attached.closed));
  }));
