/** Keeps the containers' hosts and resolv.conf files up to date: containers on a network know each other by name. */
import { join } from "node:path";
import { Mutex } from "../../base/mutex.ts";
import { hostResolvConf, hostsFile } from "./host_files.ts";
import { amendedHosts } from "./hosts_amend.ts";
import type { DeploySpec } from "../../api/deploy_spec.ts";
import type { Logger } from "../../base/log.ts";
import { type NamedInstance, namesOn } from "./names.ts";
import { type Resolvers, resolvText } from "./resolvers.ts";

/** A file that is larger was not written by the server alone: its workload may write it too. */
const MOST_BYTES = 1024 ** 2;

/** An instance with such files. */
export interface FiledInstance extends NamedInstance {
  spec: DeploySpec;
  /** Folder of the files. */
  bundle: string;
  /** Its processes may be reading the files. */
  running: boolean;
}

async function put(file: Deno.FsFile, part: Uint8Array, at: number): Promise<void> {
  await file.seek(at, Deno.SeekMode.Start);
  for (let done = 0; done < part.length;) done += await file.write(part.subarray(done));
}

/** Milliseconds after which nobody reads a line any more that has become a comment. */
const READ_BY_THEN = 1000;

/** Changes a hosts file in place; containers may read it meanwhile. True: it has comments to be cleared later. */
async function amend(path: string, text: string): Promise<boolean> {
  const { size } = await Deno.stat(path);
  if (size > MOST_BYTES) return await overwrite(path, text);
  // Our own: the bundle's file, which the container's mount keeps from being replaced.
  const pieces = amendedHosts(await Deno.readTextFile(path), text);
  if (!pieces) return await overwrite(path, text);
  if (pieces.length === 0) return false;
  using file = await Deno.open(path, { write: true });
  for (const piece of pieces) await put(file, new TextEncoder().encode(piece.text), piece.at);
  return pieces.some((piece) => piece.text === "#");
}

/**
 * Rewrites a file in place while containers may read it. The file ends in empty lines: they make room before
 * the text is written, and cover the rest of a longer text. A reader of a file that is truncated would see zero
 * bytes, and of one that grows half a line.
 */
async function overwrite(path: string, text: string): Promise<false> {
  using file = await Deno.open(path, { write: true });
  let { size } = await file.stat();
  if (size > MOST_BYTES) await file.truncate(size = 0);
  const bytes = new TextEncoder().encode(text);
  const whole = new Uint8Array(Math.max(bytes.length, size)).fill(0x0a);
  if (whole.length > size) await put(file, whole.subarray(size), size);
  whole.set(bytes);
  await put(file, whole, 0);
  return false;
}

export class ContainerFiles {
  #resolvers: Resolvers;
  #log: Logger;
  #written = new WeakMap<FiledInstance, Record<string, string>>();
  /** Those whose hosts file has comments to be cleared. */
  #commented = new Set<FiledInstance>();
  #lock = new Mutex();

  constructor(resolvers: Resolvers, log: Logger) {
    this.#resolvers = resolvers;
    this.#log = log;
  }

  /** Writes the files whose content changed, in place: they are mounted in the containers. */
  refresh(all: readonly FiledInstance[]): Promise<void> {
    return this.#lock.run(async () => {
      const hostConf = await hostResolvConf();
      const named = namesOnEach(all);
      await Promise.all(all.flatMap((instance) => [
        this.#write(instance, "hosts", hosts(instance, named)),
        this.#write(
          instance,
          "resolv.conf",
          resolvText(this.#resolvers, instance.spec, instance.made.choice, hostConf),
        ),
      ]));
    });
  }

  async #write(instance: FiledInstance, file: string, text: string): Promise<void> {
    const written = this.#written.get(instance) ?? {};
    if (written[file] === text) return;
    try {
      const change = file === "hosts" && instance.running ? amend : overwrite;
      if (await change(join(instance.bundle, file), text)) this.#clearLater(instance);
      written[file] = text;
      this.#written.set(instance, written);
    } catch (error) {
      // The file does not exist yet, or was removed meanwhile: its creator calls again.
      if (error instanceof Deno.errors.NotFound) return;
      this.#log.warn(`a ${file} file was not written`, { instance: instance.id, error });
    }
  }

  /** One pass for all changes of a while: a crowd that goes is cleared once. */
  #clearLater(instance: FiledInstance): void {
    if (this.#commented.size === 0) {
      // What was removed meanwhile is left; else the next change clears it.
      const clear = () => this.#lock.run(() => this.#clear()).catch(() => {});
      Deno.unrefTimer(setTimeout(clear, READ_BY_THEN) as unknown as number);
    }
    this.#commented.add(instance);
  }

  async #clear(): Promise<void> {
    const commented = [...this.#commented].filter(({ running }) => running);
    this.#commented.clear();
    await Promise.allSettled(commented.map(async (instance) => {
      const text = this.#written.get(instance)?.hosts;
      if (text) await amend(join(instance.bundle, "hosts"), text);
    }));
  }
}

/** The names on a network; each network is looked at once. */
function namesOnEach(all: readonly FiledInstance[]) {
  const known = new Map<string, ReturnType<typeof namesOn<FiledInstance>>>();
  return (network: string) => {
    const names = known.get(network) ??
      namesOn(network, all).filter(({ names }) => names.length > 0);
    known.set(network, names);
    return names;
  };
}

function hosts(instance: FiledInstance, named: ReturnType<typeof namesOnEach>): string {
  const { made, networks, spec } = instance;
  return hostsFile({
    hostname: made.hostname,
    ip: networks[0]?.ip,
    ip6: networks[0]?.ip6,
    gateway: networks[0]?.gateway,
    extra: spec.extraHosts,
    peers: networks.flatMap(({ network }) =>
      named(network.name).filter(({ instance: peer }) => peer !== instance)
    ),
  });
}
