/** Callers of sessions who speak by hand, for tests. */
import assert from "node:assert/strict";
import { SESSION_PATH, SESSION_VERSION, type SessionEvent } from "../../api/session.ts";
import { openYamux } from "../../client/yamux_socket.ts";
import { LineReader, writeLine } from "../../wire/lines.ts";
import { type FakeDeployments, startSessionServer } from "./testing.ts";

export type Server = Awaited<ReturnType<typeof startSessionServer>>;

export const SPEC = { name: "web", image: "app:v1", origin: { subject: "forged" } };

export async function withServer(
  work: (server: Server, folder: string) => Promise<void>,
  deployments?: FakeDeployments,
): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-session-" });
  try {
    await using server = await startSessionServer(folder, deployments);
    await work(server, folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** A caller who speaks by hand. */
export async function caller(server: Server) {
  const yamux = await openYamux(server.client, SESSION_PATH);
  const stream = yamux.open();
  const lines = new LineReader(stream);
  return {
    yamux,
    stream,
    say: (value: unknown) => writeLine(stream, value),
    next: () => lines.line<SessionEvent>(),
    /** Cut off, as by a network. */
    cut: () => yamux[Symbol.dispose](),
    [Symbol.dispose]: () => yamux[Symbol.dispose](),
  };
}

type Caller = Awaited<ReturnType<typeof caller>>;

/** What comes up to the event of that type. */
export async function until<T extends SessionEvent["type"]>(
  { next }: Caller,
  type: T,
): Promise<Extract<SessionEvent, { type: T }>> {
  for (;;) {
    const event = await next();
    assert.ok(event, `the connection ended before ${type}`);
    if (event.type === type) return event as Extract<SessionEvent, { type: T }>;
    assert.notEqual(event.type, "error", JSON.stringify(event));
  }
}

export const open = { type: "open", version: SESSION_VERSION, spec: SPEC };

export async function opened(server: Server) {
  const one = await caller(server);
  await one.say(open);
  const { token } = await until(one, "session");
  await until(one, "result");
  return { one, token, resume: { type: "resume", version: SESSION_VERSION, name: "web", token } };
}
