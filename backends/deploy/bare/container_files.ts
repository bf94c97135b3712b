/** Keeps the containers' hosts and resolv.conf up to date: each knows the others on its networks by name. */
import { join } from "node:path";
import { Mutex } from "../../../lib/base/mutex.ts";
import { hostResolvConf, hostsFile, resolvConf } from "../../../lib/deploy/host_files.ts";
import type { DeploySpec } from "../../../lib/api/deploy_spec.ts";
import type { Host } from "./host.ts";
import type { Instance } from "./instance.ts";
import { namesOn } from "./names.ts";
import type { InstanceRecord } from "./record.ts";

/** The resolvers of one container, as things are. `hostConf` is what the host has. */
export function resolvText(
  host: Pick<Host, "resolvers">,
  spec: DeploySpec,
  { choice }: Pick<InstanceRecord, "choice">,
  hostConf: string,
): string {
  const networks = choice.kind === "bridges" ? choice.networks.map(({ network }) => network) : [];
  return resolvConf(hostConf, {
    servers: spec.dnsServers,
    search: spec.dnsSearch,
    options: spec.dnsOptions,
    hostNetwork: choice.kind === "host",
    gateway: networks[0] && host.resolvers.address(networks[0]),
    internal: networks.every(({ internal }) => internal),
  });
}

/**
 * Gives a file that containers may be reading another content, in place. Empty lines are at its end: they
 * make room before the text is written, and cover what is left of a longer one. Who reads meanwhile would
 * see zero bytes of a file that is cut off, and half a line of one that grows.
 */
async function overwrite(path: string, text: string): Promise<void> {
  using file = await Deno.open(path, { write: true });
  const { size } = await file.stat();
  const bytes = new TextEncoder().encode(text);
  const put = async (part: Uint8Array, at: number) => {
    await file.seek(at, Deno.SeekMode.Start);
    for (let done = 0; done < part.length;) done += await file.write(part.subarray(done));
  };
  const whole = new Uint8Array(Math.max(bytes.length, size)).fill(0x0a);
  if (whole.length > size) await put(whole.subarray(size), size);
  whole.set(bytes);
  await put(whole, 0);
}

export class ContainerFiles {
  #host: Host;
  #written = new WeakMap<Instance, Record<string, string>>();
  #lock = new Mutex();

  constructor(host: Host) {
    this.#host = host;
  }

  /** Writes the files whose content changed, in place: they are mounted in the containers. */
  refresh(all: readonly Instance[]): Promise<void> {
    return this.#lock.run(async () => {
      const hostConf = await hostResolvConf();
      await Promise.all(all.flatMap((instance) => [
        this.#write(instance, "hosts", hosts(instance, all)),
        this.#write(
          instance,
          "resolv.conf",
          resolvText(this.#host, instance.spec, instance.record, hostConf),
        ),
      ]));
    });
  }

  async #write(instance: Instance, file: string, text: string): Promise<void> {
    const written = this.#written.get(instance) ?? {};
    if (written[file] === text) return;
    try {
      await overwrite(join(instance.bundle, file), text);
      written[file] = text;
      this.#written.set(instance, written);
    } catch (error) {
      // Not made yet, or removed meanwhile: whoever makes it asks again.
      if (error instanceof Deno.errors.NotFound) return;
      this.#host.log.warn(`a ${file} file was not written`, { instance: instance.id, error });
    }
  }
}

function hosts(instance: Instance, all: readonly Instance[]): string {
  const { record, spec } = instance;
  return hostsFile({
    hostname: record.hostname,
    ip: record.networks[0]?.ip,
    gateway: record.networks[0]?.gateway,
    extra: spec.extraHosts,
    peers: record.networks.flatMap(({ network }) =>
      namesOn(network.name, all).filter(({ instance: peer, names }) =>
        peer !== instance && names.length > 0
      )
    ),
  });
}
