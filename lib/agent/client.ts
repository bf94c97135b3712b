/** A command's side of the agent's socket. */
import { connect } from "node:net";
import { asSvcError, SvcError } from "../base/errors.ts";
import { requireOwnFolder } from "../base/runtime_folder.ts";
import { sleep } from "../base/sleep.ts";
import { problemError } from "../client/problems.ts";
import { LineReader, writeLine } from "../wire/lines.ts";
import { socketDuplex } from "../wire/socket_duplex.ts";
import type { HoldAnswer } from "./holdings.ts";
import { type AgentPlace, agentPlace, ownBuild } from "./place.ts";
import {
  type AgentHello,
  type AgentReply,
  type AgentRequest,
  type Build,
  type Choice,
  type Description,
  type HeldStatus,
  isNewer,
  MAX_LINE,
} from "./protocol.ts";
import { hasRecords } from "./records.ts";
import { startAgent } from "./start.ts";

/** Milliseconds for an agent to start, on a machine that does other things too. */
const START_MS = 60_000;
const PAUSE_MS = 50;

export interface AgentClientOptions {
  env: Readonly<Record<string, string | undefined>>;
  signal: AbortSignal;
  /** Starts the agent; it may take a while until the socket answers. */
  start?: (place: AgentPlace) => Promise<void>;
  /** Default: this program. */
  build?: Build;
}

/** A request's connection, after the hello. */
interface Call {
  hello: AgentHello;
  ask(request: AgentRequest, onProgress?: (message: string) => void): Promise<unknown>;
  [Symbol.dispose](): void;
}

/** Undefined: nobody listens. */
async function dial(path: string, signal: AbortSignal): Promise<Call | undefined> {
  const socket = connect({ path, allowHalfOpen: true });
  const abort = () => socket.destroy();
  signal.addEventListener("abort", abort, { once: true });
  const release = () => {
    signal.removeEventListener("abort", abort);
    socket.destroy();
  };
  const stream = socketDuplex(socket);
  const lines = new LineReader(stream, MAX_LINE);
  try {
    const hello = await lines.line<AgentHello>();
    if (hello === undefined) throw new Error("it hung up");
    return {
      hello,
      ask: (request, onProgress) => ask({ stream, lines }, request, signal, onProgress),
      [Symbol.dispose]: release,
    };
  } catch {
    release();
    signal.throwIfAborted();
    return undefined;
  }
}

async function ask(
  { stream, lines }: { stream: ReturnType<typeof socketDuplex>; lines: LineReader },
  request: AgentRequest,
  signal: AbortSignal,
  onProgress?: (message: string) => void,
): Promise<unknown> {
  try {
    await writeLine(stream, request);
    for (;;) {
      const reply = await lines.line<AgentReply>();
      if (reply === undefined) break;
      if (reply.type === "progress") onProgress?.(reply.message);
      else if (reply.type === "done") return reply.value;
      else throw problemError(reply.error);
    }
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof SvcError && error.code !== "upstream_failed") throw error;
    throw ended(error);
  }
  signal.throwIfAborted();
  throw ended();
}

const ended = (cause?: unknown) =>
  new SvcError("unavailable", "Cannot tell what became of it: the agent ended meanwhile", {
    cause,
    help: "`svc daemon status` starts it again and lists what it holds",
  });

export class AgentClient {
  readonly #options: AgentClientOptions;
  readonly #place: AgentPlace;

  constructor(options: AgentClientOptions, place: AgentPlace) {
    this.#options = options;
    this.#place = place;
  }

  /** Holds what is described, and starts the agent where none runs. Aborting takes it back. */
  async hold(
    description: Description,
    { again, onProgress }: { again?: boolean; onProgress?: (message: string) => void } = {},
  ): Promise<HoldAnswer> {
    using call = await this.#call();
    const request = { type: "hold", description, again } as const;
    return await call.ask(request, onProgress) as HoldAnswer;
  }

  /** Undefined: no agent runs, and none left anything behind. */
  async status(): Promise<(AgentHello & { held: HeldStatus[] }) | undefined> {
    using call = await this.#callIfThere();
    if (!call) return undefined;
    return { ...call.hello, held: await call.ask({ type: "status" }) as HeldStatus[] };
  }

  /** Ends what is chosen of what is held; tells what it was. */
  async release(choice: Choice): Promise<HeldStatus[]> {
    using call = await this.#callIfThere();
    return call ? await call.ask({ type: "release", choice }) as HeldStatus[] : [];
  }

  /** Ends everything that is held, and the agent. Undefined: none runs, and none left anything behind. */
  async stop(): Promise<HeldStatus[] | undefined> {
    using call = await this.#callIfThere();
    return call && await call.ask({ type: "stop" }) as HeldStatus[];
  }

  /** An agent that was killed is followed by one that goes on with what it held. */
  async #callIfThere(): Promise<Call | undefined> {
    const { socket, records } = this.#place;
    const call = await dial(socket, this.#options.signal);
    if (!call && !await hasRecords(records)) return undefined;
    call?.[Symbol.dispose]();
    return await this.#call();
  }

  /** A connection to an agent that is not older than this program. */
  async #call(): Promise<Call> {
    const { signal, start = (place) => startAgent(place, this.#options.env) } = this.#options;
    const build = this.#options.build ?? await ownBuild();
    const until = performance.now() + START_MS;
    let started = -Infinity;
    for (;;) {
      const call = await dial(this.#place.socket, signal);
      if (call && !isNewer(build, call.hello.agent)) return call;
      if (call) {
        using old = call;
        await old.ask({ type: "leave" }).catch((error) => {
          if (asSvcError(error).code !== "unavailable") throw error;
        });
      }
      if (performance.now() > until) throw notStarted(this.#place);
      // Again after a while: the one that was about to end may have kept the first from starting.
      if (performance.now() - started > START_MS / 12) {
        await start(this.#place);
        started = performance.now();
      }
      await sleep(PAUSE_MS, signal);
    }
  }
}

function notStarted({ log, socket }: AgentPlace): SvcError {
  return new SvcError("unavailable", `Cannot reach the agent at ${socket}: it does not answer`, {
    help: `see ${log}`,
  });
}

/** Throws `denied` where whoever listens at the agent's place may be another user's program. */
export async function openAgent(options: AgentClientOptions): Promise<AgentClient> {
  const place = await agentPlace(options.env);
  await requireOwnFolder(place.folder);
  return new AgentClient(options, place);
}
