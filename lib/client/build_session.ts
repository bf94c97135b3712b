/** `GET /build/attach` from the client's side: the build's events out, its inputs served (lib/api). */
import type { BuildEvent } from "../api/build.ts";
import {
  ATTACH_PATH,
  type AttachRequest,
  type Found,
  type ListedEntry,
  type ListEnd,
  type ListingPart,
} from "../api/build_session.ts";
import { toProblem } from "../api/problem.ts";
import { asSvcError, SvcError } from "../base/errors.ts";
import type { Duplex } from "../wire/duplex.ts";
import { LineReader, writeLine } from "../wire/lines.ts";
import type { ConfinedFolder } from "../wire/files/folder.ts";
import { type Attached, type Fields, type Handler } from "../wire/attached/session.ts";
import type { Kind } from "../wire/attached/kinds.ts";
import { attach } from "./attached/attach.ts";
import { sendFiles } from "./build_files.ts";
import { changedLines, listingLines, type SomeLines } from "./build_listing.ts";
import type { Client } from "./client.ts";
import { type ConnectAgent, serveAgent } from "./ssh/serve_agent.ts";

export type { ConnectAgent };

/** All that the server may read on this machine for the build. */
export interface BuildInputs {
  /** By the name of the export. */
  folders: ReadonlyMap<string, {
    folder: ConfinedFolder;
    list(signal: AbortSignal): AsyncIterable<readonly ListedEntry[]>;
  }>;
  /** The context as an archive; read once. */
  archive?: ReadableStream<Uint8Array>;
  /** By id. One that turns out not to be there resolves to undefined. */
  secrets: ReadonlyMap<string, () => Promise<Uint8Array | undefined>>;
  /** Connections to SSH agents by id. */
  agents: ReadonlyMap<string, ConnectAgent>;
  signal: AbortSignal;
}

const encoder = new TextEncoder();

/** Streams that the server may have open at once: steps that run in parallel ask in parallel. */
const MAX_STREAMS = 256;

const texts = ({ export: name, id }: Fields) => ({ name: String(name), id: String(id) });

/** Answers what the server asks for, by the kind of its streams. */
class Answers {
  #inputs: BuildInputs;
  constructor(inputs: BuildInputs) {
    this.#inputs = inputs;
  }

  readonly takes: Partial<Record<Kind, Handler>> = {
    list: this.#ending((stream, { name }) => this.#list(listingLines(this.#entries(name)), stream)),
    changes: this.#ending(async (stream, { name }) => {
      const parts = await new LineReader(stream).line<ListingPart[]>();
      await this.#list(changedLines(this.#entries(name), parts ?? []), stream);
    }),
    files: this.#ending((stream, { name }) =>
      sendFiles(this.#folder(name).folder, new LineReader(stream), stream)
    ),
    "9p": this.#ending(async (stream) => {
      const { serveNinep } = await import("../wire/ninep/server.ts");
      const { folderNode } = await import("../wire/files/folder_node.ts");
      const folders = [...this.#inputs.folders];
      const roots = new Map(folders.map(([name, { folder }]) => [name, folderNode(folder)]));
      try {
        await serveNinep(stream, roots);
      } finally {
        for (const root of roots.values()) root.close();
      }
    }),
    tar: this.#ending((stream) => this.#archive(stream)),
    secret: this.#ending((stream, { id }) => this.#secret(id, stream)),
    ssh: this.#ending((stream, { id }) => serveAgent(stream, id, this.#inputs.agents.get(id))),
  };

  /** Resets the stream when its answer throws; the end of the build reports the reason. */
  #ending(
    answer: (stream: Duplex, asked: { name: string; id: string }) => Promise<void>,
  ): Handler {
    return async (stream, fields) => {
      await answer(stream, texts(fields));
      await stream.closeWrite();
    };
  }

  #folder(name: string) {
    const folder = this.#inputs.folders.get(name);
    if (!folder) throw new SvcError("not_found", `Cannot read ${name}: it is not exported`);
    return folder;
  }

  #entries(name: string): AsyncIterable<readonly ListedEntry[]> {
    return this.#folder(name).list(this.#inputs.signal);
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
    if (!archive || archive.locked) {
      const why = archive ? "it was sent already" : "the build has none";
      throw new SvcError("not_found", `Cannot send the archive: ${why}`);
    }
    for await (const chunk of archive) await stream.write(chunk);
  }

  async #secret(id: string, stream: Duplex): Promise<void> {
    const read = this.#inputs.secrets.get(id);
    if (!read) return await writeLine(stream, { found: false } satisfies Found);
    let bytes: Uint8Array | undefined;
    try {
      bytes = await read();
    } catch (error) {
      const problem = toProblem(asSvcError(error, `Cannot read secret ${id}`));
      return await writeLine(stream, { found: false, error: problem } satisfies Found);
    }
    await writeLine(stream, { found: bytes !== undefined } satisfies Found);
    if (bytes) await stream.write(bytes);
  }
}

/** A connection on which one build can be requested. */
export interface BuildSession {
  /**
   * The build's events, the last one `result` or `error`. Throws `upstream_failed` where the connection breaks.
   * The session ends with the build, whether that succeeds or fails.
   */
  build(request: AttachRequest): AsyncGenerator<BuildEvent>;
  /** Ends a session on which no build was started. */
  [Symbol.dispose](): void;
}

/**
 * Opens the session. The inputs are not read before the request; secrets, agents and file contents not before
 * the build asks for them. Throws what the server answered if it does not know build sessions (`not_found`) or
 * refuses this one.
 */
export async function openBuildSession(client: Client, inputs: BuildInputs): Promise<BuildSession> {
  const { takes } = new Answers(inputs);
  const session = await attach(client, ATTACH_PATH, {
    attempt: "build",
    takes,
    maxStreams: MAX_STREAMS,
    early: true,
    lost: () =>
      new SvcError(
        "upstream_failed",
        `Cannot finish the build: the connection to ${client.server} was lost`,
        { help: "build again: steps that were finished come from the cache" },
      ),
  });
  return {
    build: (request) => runBuild(session, request, inputs.signal),
    [Symbol.dispose]: () => session[Symbol.dispose](),
  };
}

async function* runBuild(
  session: Attached,
  request: AttachRequest,
  signal: AbortSignal,
): AsyncGenerator<BuildEvent> {
  const abort = () => session[Symbol.dispose]();
  signal.addEventListener("abort", abort, { once: true });
  try {
    signal.throwIfAborted();
    const control = session.open("build");
    await writeLine(control, request);
    const lines = new LineReader(control, Infinity);
    for (let event = await lines.line<BuildEvent>(); event; event = await lines.line()) {
      yield event;
      if (event.type === "result" || event.type === "error") break;
    }
    await session.close();
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    signal.removeEventListener("abort", abort);
    session[Symbol.dispose]();
  }
}
