/** `GET /build/attach` from the client's side: the build's events out, its inputs served (lib/api). */
import type { BuildEvent } from "../api/build.ts";
import {
  type Ask,
  ATTACH_PATH,
  type AttachRequest,
  CONTEXT_EXPORT,
  type Found,
  type ListedEntry,
  type ListEnd,
} from "../api/build_session.ts";
import { toProblem } from "../api/problem.ts";
import { asSvcError, SvcError } from "../base/errors.ts";
import type { Duplex } from "../wire/duplex.ts";
import { LineReader, writeLine } from "../wire/lines.ts";
import type { ConfinedFolder } from "../wire/ninep/folder.ts";
import { serveNinep } from "../wire/ninep/server.ts";
import { isLost, type YamuxSession } from "../wire/yamux/session.ts";
import { sendFiles } from "./build_files.ts";
import { Ahead, changedLines, listingLines, type SomeLines } from "./build_listing.ts";
import type { Client } from "./client.ts";
import { openYamux } from "./yamux_socket.ts";

/** A connection to an SSH agent. */
export type ConnectAgent = () => Promise<Duplex>;

/** What the build may read here, and nothing else. */
export interface BuildInputs {
  /** By the name of the export. */
  folders: ReadonlyMap<string, {
    folder: ConfinedFolder;
    list(signal: AbortSignal): AsyncIterable<readonly ListedEntry[]>;
  }>;
  /** The context as an archive; read once. */
  archive?: ReadableStream<Uint8Array>;
  /** By id. */
  secrets: ReadonlyMap<string, () => Promise<Uint8Array>>;
  /** Connections to SSH agents by id. */
  agents: ReadonlyMap<string, ConnectAgent>;
  signal: AbortSignal;
}

const encoder = new TextEncoder();

class Server {
  #inputs: BuildInputs;
  /** The context, which the server is about to ask for. */
  #context: Ahead<readonly ListedEntry[]> | undefined;

  constructor(inputs: BuildInputs) {
    this.#inputs = inputs;
  }

  /** Looks at the context while the server gets ready. */
  begin(): void {
    const { folders, signal } = this.#inputs;
    const context = folders.get(CONTEXT_EXPORT);
    if (context) this.#context = new Ahead(context.list(signal));
  }

  async serve(stream: Duplex): Promise<void> {
    try {
      const lines = new LineReader(stream);
      const ask = await lines.line<Ask>();
      await this.#answer(ask, stream, lines);
      await stream.closeWrite();
    } catch {
      // The server learns that its stream ended; what it was for is told by the build's end.
      stream.reset();
    }
  }

  async #answer(ask: Ask | undefined, stream: Duplex, lines: LineReader): Promise<void> {
    switch (ask?.service) {
      case "list":
        return await this.#list(listingLines(this.#entries(ask.export)), stream);
      case "changes":
        return await this.#list(changedLines(this.#entries(ask.export), ask.parts), stream);
      case "files":
        return await sendFiles(this.#folder(ask.export).folder, lines, stream);
      case "9p": {
        const folders = [...this.#inputs.folders].map(([name, { folder }]) =>
          [name, folder] as const
        );
        return await serveNinep(after(stream, lines), new Map(folders));
      }
      case "tar":
        return await this.#archive(stream);
      case "secret":
        return await this.#secret(ask.id, stream);
      case "ssh":
        return await this.#agent(ask.id, stream, lines);
      default:
        throw new SvcError("argument_invalid", "Cannot answer the server: the service is unknown");
    }
  }

  #folder(name: string) {
    const folder = this.#inputs.folders.get(name);
    if (!folder) throw new SvcError("not_found", `Cannot read ${name}: it is not exported`);
    return folder;
  }

  async *#entries(name: string): AsyncGenerator<readonly ListedEntry[]> {
    const ahead = name === CONTEXT_EXPORT ? this.#context : undefined;
    if (ahead) this.#context = undefined;
    yield* ahead ?? this.#folder(name).list(this.#inputs.signal);
  }

  async #list(listing: AsyncIterable<SomeLines>, stream: Duplex): Promise<void> {
    let total = 0;
    let end: ListEnd;
    let last = "";
    try {
      for await (const { text, count } of listing) {
        if (last !== "") await stream.write(encoder.encode(last));
        last = text;
        total += count;
      }
      end = { end: total };
    } catch (error) {
      end = { error: toProblem(asSvcError(error, "Cannot read the build context")) };
    }
    await stream.write(encoder.encode(`${last}${JSON.stringify(end)}\n`));
  }

  async #archive(stream: Duplex): Promise<void> {
    const { archive } = this.#inputs;
    if (!archive || archive.locked) throw new SvcError("not_found", "Cannot send the archive");
    for await (const chunk of archive) await stream.write(chunk);
  }

  async #secret(id: string, stream: Duplex): Promise<void> {
    const read = this.#inputs.secrets.get(id);
    if (!read) return await writeLine(stream, { found: false } satisfies Found);
    let bytes: Uint8Array;
    try {
      bytes = await read();
    } catch (error) {
      const problem = toProblem(asSvcError(error, `Cannot read secret ${id}`));
      return await writeLine(stream, { found: false, error: problem } satisfies Found);
    }
    await writeLine(stream, { found: true } satisfies Found);
    await stream.write(bytes);
  }

  async #agent(id: string, stream: Duplex, lines: LineReader): Promise<void> {
    const connect = this.#inputs.agents.get(id);
    if (!connect) return await writeLine(stream, { found: false } satisfies Found);
    let agent: Duplex;
    try {
      agent = await connect();
    } catch (error) {
      const problem = toProblem(asSvcError(error, `Cannot reach SSH agent ${id}`));
      return await writeLine(stream, { found: false, error: problem } satisfies Found);
    }
    try {
      await writeLine(stream, { found: true } satisfies Found);
      const incoming = pump(after(stream, lines), agent).finally(() => agent.closeWrite());
      // Whichever side ends first ends both: the protocol has no half of its own.
      await Promise.race([incoming, pump(agent, stream)]);
    } finally {
      agent.reset();
    }
  }
}

/** The stream, with what was read of it ahead. */
function after(stream: Duplex, lines: LineReader): Duplex {
  return {
    read: () => lines.read(),
    write: (bytes) => stream.write(bytes),
    closeWrite: () => stream.closeWrite(),
    reset: () => stream.reset(),
  };
}

async function pump(from: Pick<Duplex, "read">, to: Pick<Duplex, "write">): Promise<void> {
  for (let chunk = await from.read(); chunk; chunk = await from.read()) await to.write(chunk);
}

/** A connection that a build can be asked for on, once. */
export interface BuildSession {
  /**
   * The build's events, the last one `result` or `error`. Throws `upstream_failed` where the connection
   * breaks. The session ends with it, however it ends.
   */
  build(request: AttachRequest): AsyncGenerator<BuildEvent>;
  /** Ends it, where nothing is built on it. */
  [Symbol.dispose](): void;
}

/**
 * Nothing of the inputs is read before there is a request, and of secrets, agents and contents nothing
 * before the build asks for it. Throws what the server answered to a session that it does not have
 * (`not_found`) or take.
 */
export async function openBuildSession(client: Client, inputs: BuildInputs): Promise<BuildSession> {
  const server = new Server(inputs);
  const session = await openYamux(client, ATTACH_PATH, {
    onStream: (stream) => void server.serve(stream),
    lateAck: true,
  });
  const broken = (cause: unknown) =>
    isLost(cause)
      ? new SvcError(
        "upstream_failed",
        `Cannot finish the build: the connection to ${client.server} was lost`,
        { cause, help: "build again: steps that were finished come from the cache" },
      )
      : cause;
  return {
    build: (request) => runBuild(session, server, request, inputs.signal, broken),
    [Symbol.dispose]: () => session[Symbol.dispose](),
  };
}

async function* runBuild(
  session: YamuxSession,
  server: Server,
  request: AttachRequest,
  signal: AbortSignal,
  /** What an error is, once the connection has broken. */
  broken: (cause: unknown) => unknown,
): AsyncGenerator<BuildEvent> {
  const abort = () => session[Symbol.dispose]();
  signal.addEventListener("abort", abort, { once: true });
  try {
    signal.throwIfAborted();
    const control = session.open();
    await writeLine(control, request);
    server.begin();
    const lines = new LineReader(control, Infinity);
    for (let event = await lines.line<BuildEvent>(); event; event = await lines.line()) {
      yield event;
      if (event.type === "result" || event.type === "error") break;
    }
    await session.close();
  } catch (error) {
    signal.throwIfAborted();
    throw broken(error);
  } finally {
    signal.removeEventListener("abort", abort);
    session[Symbol.dispose]();
  }
}
