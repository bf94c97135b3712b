import assert from "node:assert/strict";
import type { LogFrame } from "../../../../lib/api/deployment.ts";
import { type ScriptedCall, scriptedDaemon } from "../../../../lib/docker/testing.ts";
import type { Inspected } from "./inspect.ts";
import { readLogs } from "./logs.ts";

const MIB = 1024 * 1024;
const TIME = "2026-01-01T00:00:00.000000001Z";
const bytes = (text: string) => new TextEncoder().encode(text);

const inspected = (tty: boolean) =>
  ({
    State: { StartedAt: TIME },
    Config: { Tty: tty },
    HostConfig: { LogConfig: { Type: "json-file" } },
  }) as unknown as Inspected;

/** The first frames of a line of which no end comes. */
async function firstOfEndless(tty: boolean, begin: (call: ScriptedCall) => Promise<void>) {
  await using daemon = await scriptedDaemon(async (call) => {
    await call.write("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n");
    await begin(call);
    await call.write(bytes(`${TIME} `));
    for (let sent = 0; sent < 3 * MIB; sent += MIB / 4) await call.write("x".repeat(MIB / 4));
  });
  const frames = readLogs({
    client: daemon.client,
    container: "c",
    instance: "web-0",
    look: () => Promise.resolve(inspected(tty)),
  });
  const found: LogFrame[] = [];
  for await (const some of frames) {
    found.push(...some);
    if (found.length >= 2) break;
  }
  return found.slice(0, 2);
}

for (const tty of [false, true]) {
  Deno.test(`logs: a line without an end is told in parts (terminal: ${tty})`, async () => {
    const frames = await firstOfEndless(tty, async (call) => {
      if (!tty) await call.write(new Uint8Array([1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]));
    });
    assert.equal(frames.length, 2);
    for (const { time, line, partial } of frames) {
      assert.equal(time, TIME);
      assert.equal(partial, true);
      assert.ok(/^x+$/.test(line) && line.length < 3 * MIB, `${line.length}`);
    }
  });
}

Deno.test("logs: what a followed log breaks off within, in a second of which more was told, is told whole, once", async () => {
  const second = "2026-01-01T00:00:07.000000000Z";
  const log = ["one", "two", "three"].map((line) => `${second} ${line}\n`).join("");
  let calls = 0;
  await using daemon = await scriptedDaemon(async (call) => {
    await call.write("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n");
    await call.write(calls++ === 0 ? log.slice(0, log.indexOf("wo")) : log);
  });
  const ended = { ...inspected(true), State: { StartedAt: TIME } } as Inspected;
  const frames = readLogs({
    client: daemon.client,
    container: "c",
    instance: "web-0",
    look: () => Promise.resolve(ended),
  }, { follow: true });
  const lines = (await Array.fromAsync(frames)).flat().map(({ line }) => line);
  assert.deepEqual(lines, ["one", "two", "three"]);
});
