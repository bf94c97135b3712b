import assert from "node:assert/strict";
import type { SessionCaller } from "../../wire/attached/callers.ts";
import { duplexPair } from "../../wire/testing.ts";
import type { YamuxStream } from "../../wire/yamux/stream.ts";
import { companionMounts, LedMounts } from "./led.ts";

/** As a stream of a session, which can be widened. */
function streams(): [YamuxStream, YamuxStream] {
  const pair = duplexPair().map((one) => Object.assign(one, { widen() {} }));
  return pair as unknown as [YamuxStream, YamuxStream];
}

/** A caller that answers with what it is asked for, in capitals, and how the session ended. */
function caller() {
  const asked: unknown[] = [];
  const failed: string[] = [];
  const open: SessionCaller["open"] = async (kind, fields) => {
    asked.push([kind, fields]);
    const [here, there] = streams();
    (async () => {
      for (let bytes = await there.read(); bytes; bytes = await there.read()) {
        const text = new TextDecoder().decode(bytes).toUpperCase();
        await there.write(new TextEncoder().encode(text));
      }
      await there.closeWrite();
    })().catch(() => {/* hung up */});
    return await Promise.resolve(here);
  };
  const fail = (error: Error) => void failed.push(error.message);
  return { asked, failed, open, fail, ended: new AbortController().signal };
}

async function said(stream: YamuxStream, text: string): Promise<string> {
  await stream.write(new TextEncoder().encode(text));
  return new TextDecoder().decode(await stream.read());
}

Deno.test("led mounts: a companion's stream leads to the session's caller, by its instance", async () => {
  const session = caller();
  const led = new LedMounts(session);
  const [companion, server] = streams();
  const leading = led.lead("web-0-a", server, { id: "one", place: "of another" });
  assert.equal(await said(companion, "9p"), "9P");
  await companion.closeWrite();
  await leading;
  // The place is the instance of the companion's own token, whatever it says.
  assert.deepEqual(session.asked, [["mount", { id: "one", place: "web-0-a" }]]);
  assert.deepEqual(session.failed, []);
});

Deno.test("led mounts: what is lost ends the session; after its end nothing is led", async () => {
  for (const again of [{ id: "two" }, { lost: "gone" }]) {
    const session = caller();
    const led = new LedMounts(session);
    const [companion, server] = streams();
    const first = led.lead("web-0-a", server, { id: "one" });
    assert.equal(await said(companion, "x"), "X");
    // Another instance has mounts of its own.
    const [others, theirs] = streams();
    const second = led.lead("web-1-a", theirs, { id: "two" });
    assert.equal(await said(others, "y"), "Y");
    assert.deepEqual(session.failed, []);
    await led.lead("web-0-a", streams()[1], again);
    assert.equal(session.failed.length, 1);
    assert.match(session.failed[0], /started again|gone/);
    await led.end();
    await led.lead("web-2-a", streams()[1], { id: "three" });
    assert.equal(session.asked.length, 2);
    companion.reset();
    others.reset();
    await Promise.allSettled([first, second]);
  }
});

Deno.test("led mounts: the role's settings, and what an instance gets of its companion's folder", () => {
  const { roles, mounts } = companionMounts([
    { target: "/data", kind: "folder" },
    { target: "/etc/a", kind: "file", readOnly: true, cache: "secret" },
  ], { graceMs: 5000, how: ({ kind }) => kind === "folder" ? { defer: true } : undefined });
  assert.deepEqual(Object.keys(roles), ["mount"]);
  const text = JSON.stringify(roles);
  assert.match(text, /"blocks":\{"\/data":\{"defer":true\}\}/);
  assert.ok(!text.includes("secret"));
  assert.deepEqual(
    mounts,
    [
      { source: "session/0/tree/", target: "/data", readOnly: undefined },
      { source: "session/1/tree/file", target: "/etc/a", readOnly: true },
    ].map((one) => ({ ...one, source: one.source.replace(/\/$/, "") })),
  );
});
