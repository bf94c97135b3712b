/** The agent: its socket, who may speak to it, and when it ends. */
import { createServer, type Server, type Socket } from "node:net";
import { toProblem } from "../api/problem.ts";
import { asSvcError, SvcError } from "../base/errors.ts";
import { acquireLock, type FileLock } from "../base/lock.ts";
import { makeOwnFolder } from "../base/runtime_folder.ts";
import { sleep } from "../base/sleep.ts";
import { uidOfPeer } from "../sys/peer_uid.ts";
import type { Duplex } from "../wire/duplex.ts";
import { LineReader, writeLine } from "../wire/lines.ts";
import { socketDuplex } from "../wire/socket_duplex.ts";
import { catchUnhandled } from "./boundary.ts";
import { Holdings, type HoldingsOptions } from "./holdings.ts";
import type { AgentPlace } from "./place.ts";
import {
  type AgentHello,
  type AgentReply,
  type AgentRequest,
  type Build,
  MAX_LINE,
} from "./protocol.ts";
import { HeldRecords } from "./records.ts";

export interface AgentOptions extends Pick<HoldingsOptions, "holders" | "log" | "pauses"> {
  place: AgentPlace;
  build: Build;
  /** Milliseconds that the agent stays when it holds nothing. */
  idleMs: number;
  /** Aborts: it ends, and leaves what it holds to the next one. */
  signal: AbortSignal;
  /** The user at the other end of a socket; undefined: the system does not tell. */
  uidOf?: (socket: Socket) => number | undefined;
}

/** Milliseconds for the next agent to take what this one has open, and between two looks. */
const TAKEN_MS = 60_000;
const LOOK_MS = 100;

class Agent {
  readonly #options: AgentOptions;
  readonly #holdings: Holdings;
  readonly #hello: AgentHello;
  readonly #ended = Promise.withResolvers<void>();
  #server: Server | undefined;
  #connections = 0;
  #idle: ReturnType<typeof setTimeout> | undefined;

  constructor(options: AgentOptions) {
    this.#options = options;
    this.#hello = { agent: options.build, pid: Deno.pid, since: new Date().toISOString() };
    this.#holdings = new Holdings({
      ...options,
      records: new HeldRecords(options.place.records),
      onEmpty: () => this.#rest(),
    });
  }

  /** Serves until it has nothing to do, is told to end, or the signal aborts. */
  async run(): Promise<void> {
    const { signal, log, place } = this.#options;
    using _unhandled = catchUnhandled((error) =>
      log(`an error that nothing handled: ${error instanceof Error ? error.stack : String(error)}`)
    );
    await this.#holdings.takeOver();
    this.#server = await this.#listen();
    const leave = () => void this.#leave();
    signal.addEventListener("abort", leave, { once: true });
    if (signal.aborted) leave();
    this.#rest();
    await this.#ended.promise;
    signal.removeEventListener("abort", leave);
    clearTimeout(this.#idle);
    this.#server.close();
    await Deno.remove(place.socket).catch(() => {/* closing has removed it */});
  }

  async #listen(): Promise<Server> {
    const { socket: path } = this.#options.place;
    // The lock is held: a socket that is there is an ended agent's.
    await Deno.remove(path).catch(() => {/* there is none */});
    const server = createServer({ allowHalfOpen: true }, (socket) => void this.#take(socket));
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(path, () => {
        server.removeAllListeners("error");
        server.on("error", (error) => this.#options.log(`a connection was not taken: ${error}`));
        resolve();
      });
    });
    await Deno.chmod(path, 0o600);
    return server;
  }

  /** Ends the agent in a while, unless something comes. */
  #rest(): void {
    clearTimeout(this.#idle);
    if (this.#connections > 0 || this.#holdings.size > 0) return;
    this.#idle = setTimeout(() => {
      if (this.#connections === 0 && this.#holdings.size === 0) this.#ended.resolve();
    }, this.#options.idleMs);
  }

  async #leave(): Promise<void> {
    await this.#holdings.leave();
    this.#ended.resolve();
  }

  async #take(socket: Socket): Promise<void> {
    const { log, uidOf = uidOfPeer } = this.#options;
    const stream = socketDuplex(socket);
    let uid: number | undefined;
    try {
      uid = uidOf(socket);
    } catch (error) {
      log(`a connection whose user is not known was refused: ${error}`);
      return stream.reset();
    }
    if (uid !== undefined && uid !== Deno.uid()) {
      log(`user ${uid} was refused`);
      return stream.reset();
    }
    this.#connections++;
    try {
      await this.#converse(stream);
    } catch (error) {
      log(`a command's connection broke: ${asSvcError(error).message}`);
    } finally {
      stream.reset();
      this.#connections--;
      this.#rest();
    }
  }

  async #converse(stream: Duplex): Promise<void> {
    const gone = new AbortController();
    void stream.closed?.then(() => gone.abort(new DOMException("it hung up", "AbortError")));
    const say = (reply: AgentReply) => writeLine(stream, reply);
    await writeLine(stream, this.#hello);
    const lines = new LineReader(stream, MAX_LINE);
    const request = await lines.line<AgentRequest>();
    if (request === undefined) return;
    // A command that ends in the middle closes its side: nothing else follows the request.
    void lines.read().catch(() => {}).then(() =>
      gone.abort(new DOMException("it hung up", "AbortError"))
    );
    let last: AgentReply;
    try {
      const onProgress = (message: string) =>
        void say({ type: "progress", message }).catch(() => {/* it hung up */});
      last = { type: "done", value: await this.#answer(request, onProgress, gone.signal) };
    } catch (error) {
      last = { type: "error", error: toProblem(asSvcError(error)) };
    }
    const ends = request.type === "stop" || request.type === "leave";
    // Whoever asks once this is answered meets no agent that is about to end.
    if (ends) this.#server?.close();
    await say(last);
    await stream.closeWrite();
    if (ends) this.#ended.resolve();
  }

  async #answer(
    request: AgentRequest,
    onProgress: (message: string) => void,
    signal: AbortSignal,
  ): Promise<unknown> {
    switch (request.type) {
      case "hold": {
        const { description, again } = request;
        return await this.#holdings.hold(description, { again, onProgress, signal });
      }
      case "status":
        return this.#holdings.status;
      case "release":
        return await this.#holdings.release(request.choice);
      case "stop":
        return await this.#holdings.release();
      case "leave":
        return void await this.#holdings.leave();
      default:
        throw new SvcError("unsupported", "Cannot do that: this agent does not know the request", {
          help: "`svc daemon stop`, and do it again: a newer agent is started",
        });
    }
  }
}

/** Runs the agent to its end. False: another one runs already. */
export async function runAgent(options: AgentOptions): Promise<boolean> {
  const { folder, lock } = options.place;
  await makeOwnFolder(folder);
  let held: FileLock;
  try {
    held = await acquireLock(lock);
  } catch (error) {
    if (error instanceof SvcError && error.code === "data_dir_locked") return false;
    throw error;
  }
  {
    using _lock = held;
    await new Agent(options).run();
  }
  await untilTaken(options);
  return true;
}

/** Files that are open here go over to the next agent while this process lives. */
async function untilTaken({ place, signal }: AgentOptions): Promise<void> {
  const records = new HeldRecords(place.records);
  for (const until = performance.now() + TAKEN_MS; performance.now() < until && !signal.aborted;) {
    if (!await records.waits(Deno.pid).catch(() => false)) return;
    await sleep(LOOK_MS, signal).catch(() => {/* looked at next */});
  }
}
