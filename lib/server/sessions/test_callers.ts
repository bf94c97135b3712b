/** Callers of sessions who speak by hand, for tests. */
import assert from "node:assert/strict";
import { SESSION_PATH, type SessionEvent } from "../../api/session.ts";
import { attach } from "../../client/attached/attach.ts";
import type { Client } from "../../client/client.ts";
import type { Resume } from "../../wire/attached/hello.ts";
import type { AttachedOptions } from "../../wire/attached/session.ts";
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

/** A caller who speaks by hand; `resume`: on a later connection of its session. */
export async function caller(
  server: { client: Client },
  resume?: Resume,
  takes?: AttachedOptions["takes"],
) {
  const attached = await attach(server.client, SESSION_PATH, { attempt: "test", resume, takes });
  const stream = attached.open("deploy");
  const lines = new LineReader(stream);
  const say = (value: unknown) => writeLine(stream, value);
  if (resume) await say({ type: "resume" });
  return {
    attached,
    stream,
    say,
    next: () => lines.line<SessionEvent>(),
    /** Cut off, as by a network. */
    cut: () => attached[Symbol.dispose](),
    [Symbol.dispose]: () => attached[Symbol.dispose](),
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

export const open = { type: "open", spec: SPEC };

export async function opened(server: Server, takes?: AttachedOptions["takes"]) {
  const one = await caller(server, undefined, takes);
  await one.say(open);
  const { token } = await until(one, "session");
  await until(one, "result");
  return { one, resume: { name: "web", token } };
}
