/** Volumes: the server's own, and those that were made here and that no container has yet. */
import type { VolumeStatus } from "../../api/workload.ts";
import { SvcError } from "../../base/errors.ts";
import { join } from "../../base/path.ts";
import { listManaged, removeManaged } from "../../client/workloads.ts";
import { givenLabels } from "../containers/record.ts";
import type { DockerApi } from "../api.ts";
import { Records } from "../records.ts";
import type { VolumeRecord } from "./record.ts";

export interface ShownVolume extends VolumeRecord {
  size?: number;
}

export class Volumes {
  readonly #api: DockerApi;
  readonly #records: Records<VolumeRecord>;

  private constructor(api: DockerApi, records: Records<VolumeRecord>) {
    this.#api = api;
    this.#records = records;
  }

  static async open(api: DockerApi): Promise<Volumes> {
    const folder = join(api.folder, "volumes");
    return new Volumes(api, await Records.open(folder, (text) => api.warn(text)));
  }

  record(name: string): VolumeRecord | undefined {
    return this.#records.get(name);
  }

  async all(signal?: AbortSignal): Promise<ShownVolume[]> {
    const listed = await listManaged(this.#api.client(signal), "volumes").catch((error) => {
      if (error instanceof SvcError && error.code === "unsupported") return [];
      throw error;
    }) as VolumeStatus[];
    const server: ShownVolume[] = listed.map(({ name, driver, createdAt, labels, size }) => ({
      ...{ name, driver: driver || "local", driverOpts: {}, labels: givenLabels(labels) },
      ...{ created: createdAt ?? "" },
      ...size !== undefined && { size },
      ...this.#records.get(name),
    }));
    const there = new Set(server.map(({ name }) => name));
    return [...server, ...this.#records.values().filter(({ name }) => !there.has(name))];
  }

  /** Throws `not_found`. */
  async find(wanted: string, signal?: AbortSignal): Promise<ShownVolume> {
    const found = (await this.all(signal)).find(({ name }) => name === wanted);
    if (found) return found;
    throw new SvcError("not_found", `get ${wanted}: no such volume`);
  }

  async save(record: VolumeRecord): Promise<void> {
    await this.#records.save(record.name, record);
  }

  /** Throws `conflict` where a container has it. */
  async remove(name: string): Promise<void> {
    await removeManaged(this.#api.client(), "volumes", name).catch((error) => {
      // No container has had it: the server never made it.
      const gone = error instanceof SvcError && ["not_found", "unsupported"].includes(error.code);
      if (!gone) throw error;
    });
    await this.#records.remove(name);
  }
}
