/** Volumes: the server's own, and those that were made here and that no container has yet. */
import { givenLabels } from "../containers/record.ts";
import type { ApiBase } from "../base.ts";
import { notFound } from "../errors.ts";
import { listOnServer, removeFromServer } from "../managed.ts";
import { Records } from "../records.ts";
import type { VolumeRecord } from "./record.ts";

export interface ShownVolume extends VolumeRecord {
  size?: number;
}

export const noSuchVolume = (name: string) => notFound(`get ${name}: no such volume`);

export class Volumes {
  readonly #api: ApiBase;
  readonly #records: Records<VolumeRecord>;

  private constructor(api: ApiBase, records: Records<VolumeRecord>) {
    this.#api = api;
    this.#records = records;
  }

  static async open(api: ApiBase): Promise<Volumes> {
    return new Volumes(api, await Records.open(api, "volumes"));
  }

  record(name: string): VolumeRecord | undefined {
    return this.#records.get(name);
  }

  async all(signal?: AbortSignal): Promise<ShownVolume[]> {
    const listed = await listOnServer(this.#api, "volumes", signal);
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
    throw noSuchVolume(wanted);
  }

  async save(record: VolumeRecord): Promise<void> {
    await this.#records.save(record.name, record);
  }

  /** Throws `conflict` where a container has it. */
  async remove(name: string): Promise<void> {
    await removeFromServer(this.#api, "volumes", name);
    await this.#records.remove(name);
  }
}
