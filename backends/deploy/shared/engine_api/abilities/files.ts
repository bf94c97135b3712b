/**
 * Files of containers, in and out. The engine resolves paths in the container's root. An archive on its way in is
 * read and written anew: what svc refuses never reaches the engine.
 */
import { posix } from "node:path";
import { SvcError } from "../../../../../lib/base/errors.ts";
import type {
  FileAbility,
  FileChange,
  FileStat,
  InstanceOptions,
} from "../../../../../lib/deploy/caps.ts";
import type { CallOptions } from "../../../../../lib/docker/client.ts";
import { daemonStatus } from "../../../../../lib/docker/errors.ts";
import type { Answer } from "../../../../../lib/docker/exchange.ts";
import { TarWriter } from "../../../../../lib/oci/tar_write.ts";
import { withArchive } from "../../archive_body.ts";
import { type Inspected, runs } from "../inspect.ts";
import { contentOf, safeMembers } from "./members.ts";
import type { AbilityParts } from "./parts.ts";

type FilesParts = Pick<
  AbilityParts,
  "client" | "watch" | "require" | "behaviour" | "requireStill"
>;

/** Go's bits of a file mode, and what they are in st_mode. A device of characters has two of them. */
const MODE_BITS: readonly (readonly [bit: number, mode: number])[] = [
  [31, 0o040000],
  [27, 0o120000],
  [26, 0o060000],
  [25, 0o010000],
  [24, 0o140000],
  [23, 0o4000],
  [22, 0o2000],
  [20, 0o1000],
];
const CHARACTERS = 21;
const TYPE = 0o170000;
const FOLDER = 0o040000;
const LINK = 0o120000;

function systemMode(mode: number): number {
  const has = (bit: number) => (mode >>> bit & 1) === 1;
  const bits = MODE_BITS.reduce((sum, [bit, is]) => has(bit) ? sum | is : sum, mode & 0o777);
  if (has(CHARACTERS)) return bits & ~TYPE | 0o020000;
  return (bits & TYPE) === 0 ? bits | 0o100000 : bits;
}

function statOf({ headers }: Answer): FileStat {
  const text = atob(String(headers["x-docker-container-path-stat"] ?? ""));
  const { name, size, mode, mtime, linkTarget } = JSON.parse(
    new TextDecoder().decode(Uint8Array.from(text, (char) => char.charCodeAt(0))),
  ) as { name: string; size: number; mode: number; mtime: string; linkTarget?: string };
  const stat = { name, size, mode: systemMode(mode), modified: mtime };
  // Podman tells one of whatever it is.
  return (stat.mode & TYPE) === LINK && linkTarget ? { ...stat, linkTarget } : stat;
}

/** The engine's kinds of changes, by their numbers. */
const KINDS = ["modified", "added", "deleted"] as const;

/** What {@linkcode EngineBehaviour.looseArchives} takes for a pattern, or for the end of one. */
const PATTERN = /[*?[\\]/;

function requirePlain(path: string): void {
  if (!PATTERN.test(path)) return;
  throw new SvcError(
    "unsupported",
    `Cannot use path ${path}: the engine takes *, ?, [ and \\ for patterns of names`,
    { help: "copy the folder that it is in, or use svc exec with tar" },
  );
}

const isRunning = (found: Inspected) => runs(found) && !found.State.Paused;

/**
 * Throws `conflict` where the workload itself could not write: the engine does, while it does not run. It follows
 * links before it looks for mounts, and the workload may have left any: then no path tells where it would write.
 */
function requireWritable(found: Inspected, path: string): void {
  const { Mounts, HostConfig } = found;
  const fixed = HostConfig.ReadonlyRootfs || (Mounts ?? []).some(({ RW }) => !RW);
  if (fixed && !isRunning(found)) {
    throw new SvcError(
      "conflict",
      `Cannot copy to ${path}: a part of the container is read-only, and it does not run`,
      { help: "start or resume it first" },
    );
  }
  const at = posix.normalize(path);
  const mount = (Mounts ?? [])
    .map(({ Destination = "", RW }) => ({ on: posix.join(Destination, "/"), writable: RW }))
    .filter(({ on }) => posix.join(at, "/").startsWith(on))
    .sort((a, b) => b.on.length - a.on.length)[0];
  // Elsewhere the mounts of what runs decide, and there are more than are told.
  if (!mount || mount.writable) return;
  throw new SvcError("conflict", `Cannot copy to ${path}: it is read-only there`);
}

/** The engine has one status for most of these. */
const WORDS: readonly (readonly [RegExp, "not_found" | "argument_invalid" | "conflict"])[] = [
  [/too many (links|levels)/i, "argument_invalid"],
  [/read-only/i, "conflict"],
  [/cannot overwrite|file exists|is a directory/i, "conflict"],
];

/** `noFolder`: what it means that a part of the path is no folder. */
function told(error: unknown, noFolder: "not_found" | "conflict"): unknown {
  if (!(error instanceof SvcError) || daemonStatus(error) === undefined) return error;
  const { message } = error;
  const code = /not a directory/i.test(message)
    ? noFolder
    : WORDS.find(([words]) => words.test(message))?.[1];
  return code ? new SvcError(code, message, { cause: error }) : error;
}

/** The archive as the engine is to unpack it. Throws as {@linkcode safeMembers}. */
async function* checked(
  tar: ReadableStream<Uint8Array>,
  path: string,
): AsyncGenerator<Uint8Array, void, void> {
  const writer = new TarWriter();
  for await (const { member, parts } of safeMembers(tar, path)) {
    yield writer.header(member);
    for await (const bytes of contentOf(parts)) {
      const after = writer.data(bytes);
      yield bytes;
      if (after.length > 0) yield after;
    }
  }
  yield writer.end();
}

export class EngineFiles implements FileAbility {
  readonly #parts: FilesParts;
  /** The engine's archives follow links, and take patterns. */
  readonly #loose: boolean;

  constructor(parts: FilesParts) {
    this.#parts = parts;
    this.#loose = parts.behaviour.looseArchives === true;
  }

  async #call(
    method: "HEAD" | "GET" | "PUT",
    name: string,
    path: string,
    { instance, signal }: InstanceOptions = {},
    body?: () => ReadableStream<Uint8Array>,
  ): Promise<Answer> {
    const { client, watch, require, requireStill } = this.#parts;
    if (!path.startsWith("/")) {
      throw new SvcError("argument_invalid", `Cannot use path ${path}: it has to begin with /`);
    }
    if (this.#loose) requirePlain(path);
    const deployment = require(name);
    const { container } = deployment.pick(instance);
    watch.requireLive();
    const checks = this.#loose && method === "PUT";
    // What is told may be late, and the workload ends when it likes.
    const found = checks ? await watch.look(container, signal) : watch.state(container);
    // The engine looks up what it mounts, as it does for a start.
    if (!found || !isRunning(found)) await requireStill(deployment);
    if (checks && found) requireWritable(found, path);
    return await client.call({
      method,
      path: `/containers/${container}/archive`,
      query: { path, noOverwriteDirNonDir: method === "PUT" },
      attempted: method === "PUT" ? `Cannot copy to ${path}` : `Cannot copy ${path}`,
      body: body?.(),
      signal,
      ...(body && { headMs: Infinity }),
    });
  }

  async #look(name: string, path: string, options?: InstanceOptions): Promise<FileStat> {
    let answer: Answer;
    try {
      answer = await this.#call("HEAD", name, path, options);
    } catch (error) {
      const status = daemonStatus(error);
      if (status === undefined || status === 404) throw error;
      // Answers to HEAD come without the engine's words.
      try {
        answer = await this.#call("GET", name, path, options);
      } catch (error) {
        throw told(error, "not_found");
      }
    }
    await answer.body.cancel();
    return statOf(answer);
  }

  /** What an archive of it will be: an engine that follows links tells where one leads in the end. */
  async #archived(
    name: string,
    path: string,
    stat: FileStat,
    options?: InstanceOptions,
  ): Promise<FileStat> {
    if (!this.#loose || stat.linkTarget === undefined) return stat;
    const { linkTarget: _, ...found } = await this.#look(name, stat.linkTarget, options);
    return { ...found, name: posix.basename(path) };
  }

  #ofContainer(
    what: "changes" | "export",
    name: string,
    { instance, signal }: InstanceOptions = {},
  ): CallOptions {
    const { container } = this.#parts.require(name).pick(instance);
    return {
      method: "GET",
      path: `/containers/${container}/${what}`,
      attempted: what === "export" ? `Cannot export ${name}` : `Cannot tell the changes of ${name}`,
      signal,
    };
  }

  async changes(name: string, options?: InstanceOptions): Promise<FileChange[]> {
    const all = await this.#parts.client.json<{ Path: string; Kind: number }[] | null>(
      this.#ofContainer("changes", name, options),
    );
    return (all ?? []).map(({ Path, Kind }) => ({ path: Path, kind: KINDS[Kind] }));
  }

  async export(name: string, options?: InstanceOptions): Promise<ReadableStream<Uint8Array>> {
    return await this.#parts.client.stream(this.#ofContainer("export", name, options));
  }

  async stat(name: string, path: string, options?: InstanceOptions): Promise<FileStat | undefined> {
    this.#parts.require(name).pick(options?.instance);
    try {
      return await this.#archived(name, path, await this.#look(name, path, options), options);
    } catch (error) {
      if (error instanceof SvcError && error.code === "not_found") return undefined;
      throw error;
    }
  }

  async read(name: string, path: string, options?: InstanceOptions) {
    try {
      const answer = await this.#call("GET", name, path, options);
      try {
        const stat = await this.#archived(name, path, statOf(answer), options);
        return { stat, tar: answer.body };
      } catch (error) {
        await answer.body.cancel();
        throw error;
      }
    } catch (error) {
      throw told(error, "not_found");
    }
  }

  async write(
    name: string,
    path: string,
    tar: ReadableStream<Uint8Array>,
    options: InstanceOptions = {},
  ): Promise<void> {
    let broken: { error: unknown } | undefined;
    await withArchive(tar, options.signal, async (open) => {
      // Before the archive: an engine that refuses the folder may not wait for its end.
      const folder = await this.#look(name, `${path.replace(/\/+$/, "")}/.`, options);
      if (((await this.#archived(name, path, folder, options)).mode & TYPE) !== FOLDER) {
        throw new SvcError("argument_invalid", `Cannot copy to ${path}: it is no folder`);
      }
      const source = open();
      const body = async function* () {
        try {
          yield* checked(source, path);
        } catch (error) {
          broken = { error };
          throw error;
        }
      };
      const stream = () => ReadableStream.from(body());
      const { body: rest } = await this.#call("PUT", name, path, options, stream);
      await rest.cancel();
    }).catch((error) => {
      options.signal?.throwIfAborted();
      throw broken ? broken.error : told(error, "conflict");
    });
  }
}
