/** Keeps the containers' hosts files up to date: each knows the others on its networks by name. */
import { join } from "node:path";
import { Mutex } from "../../../lib/base/mutex.ts";
import { hostsFile } from "../../../lib/deploy/host_files.ts";
import type { Deployment } from "./deployment.ts";
import type { Host } from "./host.ts";
import type { Instance } from "./instance.ts";

export class HostsFiles {
  #host: Host;
  #written = new WeakMap<Instance, string>();
  #lock = new Mutex();

  constructor(host: Host) {
    this.#host = host;
  }

  /** Writes the files whose content changed, in place: they are mounted in the containers. */
  refresh(deployments: Deployment[]): Promise<void> {
    return this.#lock.run(async () => {
      const all = deployments.flatMap((deployment) => deployment.instances);
      await Promise.all(all.map(async (instance) => {
        const text = this.#text(instance, all);
        if (this.#written.get(instance) === text) return;
        const path = join(instance.bundle, "hosts");
        try {
          await Deno.writeTextFile(path, text, { create: false });
          this.#written.set(instance, text);
        } catch (error) {
          // Not made yet, or removed meanwhile: whoever makes it asks again.
          if (error instanceof Deno.errors.NotFound) return;
          this.#host.log.warn("a hosts file was not written", { instance: instance.id, error });
        }
      }));
    });
  }

  #text(instance: Instance, all: Instance[]): string {
    const { record, spec } = instance;
    const peers = record.networks.flatMap(({ network }) =>
      all.filter((other) => other !== instance && other.record.phase !== "leaving").flatMap(
        (other) =>
          other.record.networks.filter((attachment) => attachment.network.name === network.name)
            .map(({ ip, aliases }) => ({ ip, names: [other.deployment, other.id, ...aliases] })),
      )
    );
    return hostsFile({
      hostname: record.hostname,
      ip: record.networks[0]?.ip,
      gateway: record.networks[0]?.gateway,
      extra: spec.extraHosts,
      peers,
    });
  }
}
