/**
 * Files of instances, in and out, by the SFTP that Incus has for them. Of one that runs they are those that it sees
 * itself; of one that is stopped those of its root and, each apart, of its volumes.
 */
import { posix } from "node:path";
import { SvcError } from "../../../lib/base/errors.ts";
import type { FileAbility, FileStat, InstanceOptions } from "../../../lib/deploy/caps.ts";
import { type Attributes, type Sftp, SftpError } from "../../../lib/incus/sftp.ts";
import { withArchive } from "../shared/archive_body.ts";
import type { DeployedParts } from "../shared/engine_api/abilities/parts.ts";
import { runs } from "../shared/engine_api/inspect.ts";
import { FOLDER, formatOf, LINK, pack } from "./pack.ts";
import type { IncusPlace } from "./place.ts";
import { unpack } from "./unpack.ts";
import { pathOfVolume } from "./volumes.ts";

/** The extension of the API by which a volume's files are reached. */
const VOLUME_FILES = "custom_volume_sftp";

/** A path, and whose it is. */
interface Where extends Disposable {
  sftp: Sftp;
  path: string;
  /** Throws `conflict` where nothing can be put now. */
  requirePlace(path: string): void;
}

const below = (path: string, folder: string) =>
  posix.join(path, "/").startsWith(posix.join(folder, "/"));

const missing = (path: string) =>
  new SvcError("not_found", `Cannot copy ${path}: no such file or folder`);

/** Of a link itself, unless the path says that it is a folder. */
async function look({ sftp, path }: Where): Promise<Attributes | undefined> {
  return /\/\.?$/.test(path) ? await sftp.stat(path) : await sftp.lstat(path);
}

async function statOf(
  { sftp, path: within }: Where,
  path: string,
  found: Attributes,
): Promise<FileStat> {
  const { size = 0, mode = 0, mtime = 0 } = found;
  return {
    name: posix.basename(posix.resolve("/", path)) || "/",
    ...{ size, mode },
    modified: new Date(mtime * 1000).toISOString(),
    ...(formatOf(found) === LINK && { linkTarget: await sftp.readlink(within) }),
  };
}

export class IncusFiles implements FileAbility {
  readonly #place: IncusPlace;
  readonly #parts: DeployedParts;

  constructor(place: IncusPlace, parts: DeployedParts) {
    this.#place = place;
    this.#parts = parts;
  }

  /** Where a path leads while the instance does not run: its mounts are not there. */
  async #stopped(
    name: string,
    container: string,
    path: string,
  ): Promise<{ of: string; path: string; requirePlace: Where["requirePlace"] }> {
    const { mounts, volumes } = this.#parts.require(name).record.spec;
    const at = posix.normalize(path);
    const needs = (why: string) =>
      new SvcError("conflict", `Cannot use path ${path}: ${why}`, {
        help: "start the deployment first",
      });
    if (mounts.some(({ target }) => below(at, target))) {
      throw needs("a folder of the host is there, while it runs");
    }
    const volume = volumes.filter(({ target }) => below(at, target))
      .sort((a, b) => b.target.length - a.target.length)[0];
    if (!volume) {
      const targets = [...mounts, ...volumes].map(({ target }) => target);
      return {
        of: `/instances/${container}`,
        path,
        requirePlace(to) {
          if (targets.some((target) => below(to, target))) {
            throw needs("something is mounted there, while it runs");
          }
        },
      };
    }
    const { client, pool } = this.#place;
    const { api_extensions } = await client.server();
    if (!api_extensions.includes(VOLUME_FILES)) throw needs("a volume is there, while it runs");
    return {
      of: pathOfVolume(pool, volume.name),
      path: `/${at.slice(posix.join(volume.target, "/").length)}`,
      requirePlace() {
        if (volume.readOnly) throw needs("it is read-only there");
      },
    };
  }

  async #open(
    name: string,
    path: string,
    attempted: string,
    { instance, signal }: InstanceOptions = {},
  ): Promise<Where> {
    if (!path.startsWith("/")) {
      throw new SvcError("argument_invalid", `Cannot use path ${path}: it has to begin with /`);
    }
    const { watch, require } = this.#parts;
    const { container } = require(name).pick(instance);
    watch.requireLive();
    const found = watch.state(container);
    const where = found && runs(found)
      ? { of: `/instances/${container}`, path, requirePlace: () => {} }
      : await this.#stopped(name, container, path);
    const sftp = await this.#place.client.sftp(where.of, attempted, signal);
    const leave = () => sftp[Symbol.dispose]();
    signal?.addEventListener("abort", leave, { once: true });
    return {
      ...{ sftp, path: where.path, requirePlace: where.requirePlace },
      [Symbol.dispose]() {
        signal?.removeEventListener("abort", leave);
        leave();
      },
    };
  }

  async stat(name: string, path: string, options?: InstanceOptions): Promise<FileStat | undefined> {
    using where = await this.#open(name, path, `Cannot look at ${path}`, options);
    const found = await look(where);
    return found && await statOf(where, path, found);
  }

  async read(name: string, path: string, options: InstanceOptions = {}) {
    const where = await this.#open(name, path, `Cannot copy ${path}`, options);
    try {
      const found = await look(where);
      if (!found) throw missing(path);
      const stat = await statOf(where, path, found);
      return { stat, tar: archive(where, found, path, options.signal) };
    } catch (error) {
      where[Symbol.dispose]();
      throw error;
    }
  }

  async write(
    name: string,
    path: string,
    tar: ReadableStream<Uint8Array>,
    options: InstanceOptions = {},
  ): Promise<void> {
    await withArchive(tar, options.signal, async (open) => {
      using where = await this.#open(name, path, `Cannot copy to ${path}`, options);
      const folder = await where.sftp.stat(where.path);
      if (!folder) throw missing(path);
      if (formatOf(folder) !== FOLDER) {
        throw new SvcError("argument_invalid", `Cannot copy to ${path}: it is no folder`);
      }
      await unpack(where.sftp, where.path, open(), where.requirePlace);
    });
  }
}

/** Owns `where` from the call on. */
function archive(
  where: Where,
  found: Attributes,
  path: string,
  signal?: AbortSignal,
): ReadableStream<Uint8Array> {
  const bytes = async function* () {
    using held = where;
    try {
      yield* pack(held.sftp, held.path, found);
    } catch (error) {
      signal?.throwIfAborted();
      throw error instanceof SftpError && error.code === "not_found"
        ? new SvcError("conflict", `Cannot copy ${path}: it changes meanwhile`, { cause: error })
        : error;
    }
  };
  return ReadableStream.from(bytes()).pipeThrough(new TransformStream(), { signal });
}
