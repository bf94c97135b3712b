/**
 * A folder of docker's client, read through its session into a folder here (fsutil's copy protocol). Nothing is
 * written outside of that folder, whatever the client sends.
 */
import { isAbsolute, join } from "../../base/path.ts";
import { SvcError } from "../../base/errors.ts";
import type { Call } from "../../wire/grpc/call.ts";
import type { BuildClient } from "./sessions.ts";
import { PACKET, type Packet, ReadFolder, type Stat } from "./session_api.ts";

/** Bits of Go's file modes. */
const GO = {
  folder: 0x80000000,
  link: 0x08000000,
  other: 0x07200000,
  setuid: 0x800000,
  setgid: 0x400000,
  sticky: 0x100000,
};

/** Bytes of files that are asked for at once; a larger file is asked for alone. */
const AHEAD = 4 << 20;
const MAX_ENTRIES = 2_000_000;

export interface FolderQuery {
  /** The name under which the client has it: "context", "dockerfile". */
  name: string;
  /** Only these, and what they lead to. */
  paths?: readonly string[];
  /** Patterns of a `.dockerignore`. */
  excludes?: readonly string[];
}

/** Values of a head as buildkit writes them. */
function metadataOf({ name, paths, excludes }: FolderQuery): Record<string, readonly string[]> {
  const fields: Record<string, readonly string[]> = {};
  const put = (key: string, values: readonly string[] | undefined) => {
    if (!values || values.length === 0) return;
    const plain = values.every((value) => /^[\x20-\x7e]*$/.test(value));
    fields[key] = plain
      ? values
      : values.map((value) => encodeURIComponent(value).replaceAll("%20", "+"));
    if (!plain) fields[`${key}-encoded`] = ["1"];
  };
  put("dir-name", [name]);
  put("followpaths", paths);
  put("exclude-patterns", excludes);
  return fields;
}

const kindOf = (mode: number): "folder" | "link" | "file" | "other" => {
  const has = (bits: number) => (mode & bits) !== 0;
  if (has(GO.folder)) return "folder";
  if (has(GO.link)) return "link";
  return has(GO.other) ? "other" : "file";
};

function permissions(mode: number): number {
  return (mode & 0o777) | (mode & GO.setuid ? 0o4000 : 0) | (mode & GO.setgid ? 0o2000 : 0) |
    (mode & GO.sticky ? 0o1000 : 0);
}

const invalid = (why: string) =>
  new SvcError("context_invalid", `Cannot read the build context from docker's client: ${why}`);

class Receiver {
  readonly #call: Call<Partial<Packet>, Packet>;
  readonly #root: string;
  readonly #signal: AbortSignal;
  /** Folders that were listed: only these are written into. */
  readonly #folders = new Map<string, Stat>([["", {
    path: "",
    mode: GO.folder | 0o755,
    size: 0,
    modTime: 0,
    linkname: "",
  }]]);
  readonly #wanted: { id: number; stat: Stat }[] = [];
  readonly #links: Stat[] = [];
  /** Files whose content is on its way. */
  readonly #arriving = new Map<number, { stat: Stat; file: Deno.FsFile; left: number }>();
  #ahead = 0;
  #received = 0;

  constructor(call: Call<Partial<Packet>, Packet>, root: string, signal: AbortSignal) {
    this.#call = call;
    this.#root = root;
    this.#signal = signal;
  }

  async run(): Promise<number> {
    let listed = false;
    let id = 0;
    try {
      while (!listed || this.#wanted.length > 0 || this.#arriving.size > 0) {
        const packet = await this.#call.receive();
        this.#signal.throwIfAborted();
        if (!packet) throw invalid("it ended before its end");
        if (packet.type === PACKET.error) throw invalid(new TextDecoder().decode(packet.data));
        if (packet.type === PACKET.data) await this.#data(packet);
        else if (packet.type === PACKET.stat) {
          if (packet.stat) await this.#entry(id++, packet.stat);
          else listed = true;
        } else if (packet.type === PACKET.end) throw invalid("it ended before its end");
        await this.#ask();
      }
      await this.#finish();
    } finally {
      for (const { file } of this.#arriving.values()) file.close();
    }
    await this.#call.send({ type: PACKET.end });
    // The client's own end, after which it closes the call.
    for (let packet; (packet = await this.#call.receive());) {
      if (packet.type === PACKET.end) break;
    }
    this.#call.end();
    return this.#received;
  }

  #path(path: string): string {
    const parts = path.split("/");
    const parent = parts.slice(0, -1).join("/");
    const bad = path === "" || isAbsolute(path) || path.includes("\0") ||
      parts.some((part) => part === "" || part === "." || part === "..");
    if (bad) throw invalid(`${JSON.stringify(path)} is no path in it`);
    if (!this.#folders.has(parent)) {
      throw invalid(`${JSON.stringify(path)} comes before its folder`);
    }
    return join(this.#root, path);
  }

  async #entry(id: number, stat: Stat): Promise<void> {
    if (id >= MAX_ENTRIES) throw invalid(`it has more than ${MAX_ENTRIES} entries`);
    const path = this.#path(stat.path);
    switch (kindOf(stat.mode)) {
      case "folder":
        this.#folders.set(stat.path, stat);
        await Deno.mkdir(path, { mode: 0o700 });
        return;
      case "link":
        await Deno.symlink(stat.linkname, path);
        return;
      case "file":
        if (stat.linkname !== "") this.#links.push(stat);
        else this.#wanted.push({ id, stat });
        return;
      case "other":
        return; // sockets, pipes and devices are no part of a build context
    }
  }

  /** Asks for as many files as may be on their way. */
  async #ask(): Promise<void> {
    while (this.#wanted.length > 0) {
      const { id, stat } = this.#wanted[0];
      if (this.#arriving.size > 0 && this.#ahead + stat.size > AHEAD) return;
      if (this.#arriving.size >= 64) return;
      this.#wanted.shift();
      const file = await Deno.open(join(this.#root, stat.path), {
        write: true,
        createNew: true,
        mode: 0o600,
      });
      this.#arriving.set(id, { stat, file, left: stat.size });
      this.#ahead += stat.size;
      await this.#call.send({ type: PACKET.request, id });
    }
  }

  async #data({ id, data }: Packet): Promise<void> {
    const arriving = this.#arriving.get(id);
    if (!arriving) throw invalid(`it sent file ${id}, which was not asked for`);
    if (data.length > 0) {
      arriving.left -= data.length;
      if (arriving.left < 0) throw invalid(`${arriving.stat.path} changed while it was read`);
      this.#received += data.length;
      await writeAll(arriving.file, data);
      return;
    }
    if (arriving.left > 0) throw invalid(`${arriving.stat.path} changed while it was read`);
    this.#arriving.delete(id);
    this.#ahead -= arriving.stat.size;
    arriving.file.close();
    await this.#settle(arriving.stat);
  }

  async #settle({ path, mode, modTime }: Stat): Promise<void> {
    const at = join(this.#root, path);
    await Deno.chmod(at, permissions(mode));
    const time = new Date(modTime / 1e6);
    if (Number.isFinite(time.getTime())) await Deno.utime(at, time, time);
  }

  /** Hard links, once all files are there; then folders, from the deepest on. */
  async #finish(): Promise<void> {
    for (const { path, linkname } of this.#links) {
      await Deno.link(this.#path(linkname), join(this.#root, path));
    }
    for (const [path, stat] of [...this.#folders].reverse()) {
      if (path !== "") await this.#settle(stat);
    }
  }
}

async function writeAll(file: Deno.FsFile, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length;) at += await file.write(bytes.subarray(at));
}

/**
 * Reads the folder into `root`, which is empty. Returns the bytes of its files. Throws `context_invalid` for what
 * the client must not send, `not_found` where it has no such folder.
 */
export async function readFolder(
  { peer }: BuildClient,
  query: FolderQuery,
  root: string,
  signal: AbortSignal,
): Promise<number> {
  using call = peer.open(ReadFolder, `Cannot read ${query.name} from docker's client`, {
    metadata: metadataOf(query),
    signal,
  });
  return await new Receiver(call, root, signal).run();
}
