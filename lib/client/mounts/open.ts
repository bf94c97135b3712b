/**
 * Files and folders of this machine that a deploy session offers to its server, by 9P on a stream that outlives
 * its connections. The server reaches what is below an opened folder, or one file, and nothing else.
 */
import { type CallerMount, exportOf, FILE_NAME, MAX_MOUNTS } from "../../api/caller_mounts.ts";
import type { Coherence } from "../../base/coherence.ts";
import { SvcError } from "../../base/errors.ts";
import { Guards } from "../../wire/blocks/guards.ts";
import { ConfinedFolder } from "../../wire/files/folder.ts";
import { folderNode } from "../../wire/files/folder_node.ts";
import { hasSystemCalls } from "../../wire/files/host_files.ts";
import { hostFolder } from "../../wire/files/host_node.ts";
import { hostSingleFile } from "../../wire/files/host_single_file.ts";
import type { FileNode } from "../../wire/files/node.ts";
import type { AttachedOptions, Fields } from "../../wire/attached/session.ts";
import { type LastingState, LastingStream, WINDOW } from "../../wire/lasting/stream.ts";
import { adoptServed, type PassedServed, passServed } from "../../wire/ninep/passing.ts";
import { type ServedState, serveNinep } from "../../wire/ninep/server.ts";
import type { YamuxStream } from "../../wire/yamux/stream.ts";
import type { MountSource } from "./source.ts";

export interface OpenOptions {
  /** The options of coherence that this end has, for mounts with `,async`. */
  coherence?: readonly Coherence[];
  /** Told when a program of this machine has changed a file under a mount with `,async`. */
  warn?: (text: string) => void;
}

/** Places that mount the files of one session, at most: a companion of each instance. */
const MAX_PLACES = 64;

interface Exported {
  mount: CallerMount;
  node: FileNode;
}

interface Served {
  /** Of the stream of the current mounts. */
  id: string;
  stream: LastingStream;
  /** Resolves when the stream is frozen and nothing is under way; rejects where it ends before. */
  frozen: Promise<ServedState>;
}

/** How another process goes on with the serving of mounts. */
export interface PassedMounts {
  /** The process that has the files open. */
  pid: number;
  places: { place: string; id: string; stream: LastingState; served: PassedServed }[];
}

export class OfferedMounts implements Disposable {
  readonly #exported: readonly Exported[];
  /** By the place that mounts them, the server or a companion: the stream of its current mounts, and its name. */
  readonly #served = new Map<string, Served>();
  #over = false;

  constructor(exported: readonly Exported[]) {
    this.#exported = exported;
  }

  get #exports(): Map<string, FileNode> {
    return new Map(this.#exported.map(({ node }, index) => [exportOf(index), node]));
  }

  /**
   * Ends the serving, and tells another process of this user how to go on with it, as long as this one lives: open
   * files stay open. Undefined: it cannot.
   */
  async pass(): Promise<PassedMounts | undefined> {
    this.#over = true;
    const places: PassedMounts["places"] = [];
    for (const [place, { id, stream, frozen }] of this.#served) {
      stream.freeze();
      const served = await passServed(this.#exports, await frozen);
      const state = stream.state;
      if (!served || !state) return undefined;
      places.push({ place, id, stream: state, served });
    }
    return { pid: Deno.pid, places };
  }

  /** Goes on with what another process served. Throws where it cannot: then nothing is served yet. */
  adopt({ pid, places }: PassedMounts): void {
    const states = adoptServed(this.#exports, places.map(({ served }) => served), pid);
    places.forEach(({ place, id, stream }, index) =>
      this.#serve(place, id, new LastingStream(stream), states[index])
    );
  }

  /** For the session's request. */
  get mounts(): CallerMount[] {
    return this.#exported.map(({ mount }) => mount);
  }

  /** For the session: what the server may open. */
  get takes(): AttachedOptions["takes"] {
    if (this.#exported.length === 0) return {};
    return { mount: (stream, fields) => this.#carry(stream, fields) };
  }

  async #carry(connection: YamuxStream, { id, place = "" }: Fields): Promise<void> {
    if (typeof id !== "string" || typeof place !== "string" || this.#over) {
      return connection.reset();
    }
    let served = this.#served.get(place);
    if (served?.id !== id) {
      if (!served && this.#served.size >= MAX_PLACES) return connection.reset();
      served?.stream.reset();
      served = this.#serve(place, id, new LastingStream());
    }
    connection.widen(WINDOW);
    await served.stream.carry(connection);
  }

  #serve(place: string, id: string, stream: LastingStream, resumed?: ServedState): Served {
    const frozen = Promise.withResolvers<ServedState>();
    const served = { id, stream, frozen: frozen.promise };
    this.#served.set(place, served);
    frozen.promise.catch(() => {/* whoever passes it is told */});
    // What breaks 9P ends the stream, and with it the server's mounts.
    serveNinep(stream, this.#exports, { resumed, onFrozen: frozen.resolve })
      .catch((error) => stream.reset(error))
      .finally(() => frozen.reject(new Error("it has ended")));
    return served;
  }

  [Symbol.dispose](): void {
    this.#over = true;
    for (const { stream } of this.#served.values()) stream.reset();
    for (const { node } of this.#exported) node.close();
  }
}

/** Files show the caller's user as their owner, whoever it is. */
const owner = () => ({ uid: Deno.uid() ?? 0, gid: Deno.gid() ?? 0 });

/** Watches over the files of a mount with `,async`. */
function guarding(source: string, { warn }: OpenOptions): Guards {
  return new Guards(() =>
    warn?.(
      `a file below ${source} was changed here while the workload wrote to it: what the workload wrote since is ` +
        "refused, and the workload is told",
    )
  );
}

function exported(
  { source, target, readOnly, cacheName, async }: MountSource,
  given: OpenOptions,
): Exported {
  const attempt = `Cannot mount ${source} at ${target}`;
  let info: Deno.FileInfo;
  try {
    info = Deno.statSync(source);
  } catch (cause) {
    throw new SvcError("not_found", `${attempt}: it cannot be read: ${(cause as Error).message}`, {
      cause,
      help: "name a file or folder of this machine",
    });
  }
  if (!info.isDirectory && !info.isFile) {
    throw new SvcError("argument_invalid", `${attempt}: it is neither a file nor a folder`);
  }
  const kind = info.isDirectory ? "folder" : "file";
  const mount: CallerMount = {
    ...{ target, kind, ...(readOnly && { readOnly }) },
    ...(cacheName !== undefined && { cache: cacheName }),
    ...(async && { async: given.coherence ?? [] }),
  };
  if (hasSystemCalls()) {
    const guards = async && guarding(source, given);
    const options = { writable: !readOnly, owner: owner(), ...(guards && { guards }) };
    const node = kind === "folder"
      ? hostFolder(source, options)
      : hostSingleFile(source, FILE_NAME, options);
    return { mount, node };
  }
  if (readOnly && kind === "folder") return { mount, node: folderNode(new ConfinedFolder(source)) };
  throw new SvcError("unsupported", `${attempt}: this system can offer folders, and only :ro`, {
    help: "use a Linux machine, or mount a folder with :ro",
  });
}

/** Opens all sources. Throws what stands in the way of one of them. The caller disposes of the result. */
export function openMounts(
  sources: readonly MountSource[],
  options: OpenOptions = {},
): OfferedMounts {
  if (sources.length > MAX_MOUNTS) {
    throw new SvcError(
      "argument_invalid",
      `Cannot mount more than ${MAX_MOUNTS} files and folders`,
    );
  }
  const all: Exported[] = [];
  try {
    for (const source of sources) all.push(exported(source, options));
    return new OfferedMounts(all);
  } catch (error) {
    for (const { node } of all) node.close();
    throw error;
  }
}
