/** An agent in this process, with holders that a test steers. */
import type { Socket } from "node:net";
import { AgentClient } from "./client.ts";
import type { HoldContext, Holder } from "./held.ts";
import { type AgentPlace, agentPlace } from "./place.ts";
import type { Build, Description } from "./protocol.ts";
import { runAgent } from "./server.ts";

/** What one attempt of the holder is told, and how the test ends it. */
export interface Attempt {
  description: Description;
  context: HoldContext;
  /** Ends the attempt: by an error, or for good. */
  end: PromiseWithResolvers<void>;
}

export class Bench implements AsyncDisposable {
  readonly place: AgentPlace;
  readonly attempts: Attempt[] = [];
  readonly lines: string[] = [];
  #waiting: (() => void)[] = [];
  #running: { stop: AbortController; ended: Promise<boolean> }[] = [];
  build: Build = { version: "1.0.0", built: 0 };
  /** Called with each attempt before it goes on. */
  onAttempt: (attempt: Attempt) => void | Promise<void> = ({ context }) => context.works("works");
  uidOf?: (socket: Socket) => number | undefined;
  idleMs = 60_000;

  private constructor(place: AgentPlace) {
    this.place = place;
  }

  static async open(): Promise<Bench> {
    const folder = await Deno.makeTempDir({ prefix: "svc-agent-" });
    return new Bench(await agentPlace({ XDG_RUNTIME_DIR: folder }));
  }

  readonly #holder: Holder = async (description, context) => {
    const attempt = { description, context, end: Promise.withResolvers<void>() };
    this.attempts.push(attempt);
    for (const wake of this.#waiting.splice(0)) wake();
    const done = () => attempt.end.resolve();
    context.releasing.addEventListener("abort", done);
    context.leaving.addEventListener("abort", done);
    if (context.releasing.aborted || context.leaving.aborted) done();
    await this.onAttempt(attempt);
    await attempt.end.promise;
  };

  /** Runs an agent; resolves to whether it was the only one. */
  run(): Promise<boolean> {
    const stop = new AbortController();
    const ended = runAgent({
      place: this.place,
      build: this.build,
      holders: { test: this.#holder },
      log: (text) => this.lines.push(text),
      idleMs: this.idleMs,
      signal: stop.signal,
      pauses: { first: 1, longest: 5 },
      uidOf: this.uidOf,
    });
    this.#running.push({ stop, ended });
    return ended;
  }

  /** A client that starts the agent in this process. */
  client(build: Build = this.build): AgentClient {
    const start = () => {
      void this.run();
      return Promise.resolve();
    };
    return new AgentClient(
      { env: {}, signal: AbortSignal.timeout(60_000), start, build },
      this.place,
    );
  }

  /** The attempt of that number, from 0, once it has begun. */
  async attempt(index: number): Promise<Attempt> {
    while (this.attempts.length <= index) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
    return this.attempts[index];
  }

  /** The last agent ends as if it was told to. */
  async leave(): Promise<void> {
    const { stop, ended } = this.#running.at(-1)!;
    stop.abort();
    await ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { stop } of this.#running) stop.abort();
    await Promise.all(this.#running.map(({ ended }) => ended));
    await Deno.remove(this.place.folder.replace(/\/svc$/, ""), { recursive: true });
  }
}

export const described = (name: string, work: unknown = {}, project?: string): Description => ({
  ...{ kind: "test", name, place: "here", server: "http://here", env: {}, folder: "/", work },
  ...(project !== undefined && { project }),
});
