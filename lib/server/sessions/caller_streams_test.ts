/** Streams that the server opens at a session's caller. */
import assert from "node:assert/strict";
import type { Fields } from "../../wire/attached/session.ts";
import { LineReader, writeLine } from "../../wire/lines.ts";
import type { YamuxStream } from "../../wire/yamux/stream.ts";
import { caller, opened, until, withServer } from "./test_callers.ts";

/** Answers with what the stream begins with. */
const takes = {
  "9p": async (stream: YamuxStream, fields: Fields) => {
    await writeLine(stream, fields);
    await stream.closeWrite();
  },
};

async function answer(opening: Promise<YamuxStream>): Promise<unknown> {
  const stream = await opening;
  await stream.closeWrite();
  return await new LineReader(stream).line();
}

Deno.test("caller streams: the caller answers, also on a later connection", () =>
  withServer(async (server) => {
    assert.equal(server.sessions.of("web"), undefined, "there is no session yet");
    const { one, resume } = await opened(server, takes);
    const ask = (value: number) => answer(server.sessions.of("web")!.open("9p", { value }));
    assert.deepEqual(await ask(1), { value: 1 });
    one.cut();
    await server.timers.armed(30_000);
    const waiting = ask(2);
    using again = await caller(server, resume, takes);
    await until(again, "session");
    assert.deepEqual(await waiting, { value: 2 });
  }));

Deno.test("caller streams: an impatient server does not wait for a caller that is away", () =>
  withServer(async (server) => {
    const { one } = await opened(server, takes);
    one.cut();
    await server.timers.armed(30_000);
    const patience = new AbortController();
    const asked = server.sessions.of("web")!.open("9p", {}, { signal: patience.signal });
    patience.abort(new Error("enough"));
    await assert.rejects(asked, /enough/);
  }));

Deno.test("caller streams: a caller that does not take the kind is told to update", () =>
  withServer(async (server) => {
    const { one } = await opened(server);
    using _ = one;
    await assert.rejects(server.sessions.of("web")!.open("9p"), {
      code: "unsupported",
      message: /the client takes no stream 9p/,
    });
  }));

Deno.test("caller streams: they end with the session", () =>
  withServer(async (server) => {
    const { one } = await opened(server, takes);
    using _ = one;
    const session = server.sessions.of("web")!;
    const ended = new Promise((resolve) => session.ended.addEventListener("abort", resolve));
    await one.say({ type: "end" });
    await until(one, "ended");
    await ended;
    await assert.rejects(session.open("9p"), { code: "unavailable", message: /its session ended/ });
    assert.equal(server.sessions.of("web"), undefined);
  }));
