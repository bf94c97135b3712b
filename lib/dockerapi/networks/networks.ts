/** Networks: the server's own, and those that were made here and that no container is on yet. */
import type { NetworkStatus } from "../../api/workload.ts";
import { givenLabels } from "../containers/record.ts";
import type { ApiBase } from "../base.ts";
import { invalid, notFound } from "../errors.ts";
import { idOf } from "../ids.ts";
import { listOnServer, removeFromServer } from "../managed.ts";
import { Records } from "../records.ts";
import type { NetworkRecord } from "./record.ts";

/** What docker has on every host. */
const PREDEFINED: Record<string, string> = { bridge: "bridge", host: "host", none: "null" };

export const isPredefined = (name: string) => Object.hasOwn(PREDEFINED, name);

/** The server's own network for workloads that name none: docker's bridge. */
const DEFAULT = "default";

const idOfName = (name: string) => idOf(`network ${name}`);

const predefined = (name: string): NetworkRecord => ({
  ...{ id: idOfName(name), name, driver: PREDEFINED[name], internal: false, attachable: false },
  ...{ enableIPv6: false, options: {}, labels: {}, created: "1970-01-01T00:00:00Z" },
});

export class Networks {
  readonly #api: ApiBase;
  readonly #records: Records<NetworkRecord>;
  /** The server's, as they were told last. */
  #server = new Map<string, NetworkStatus>();

  private constructor(api: ApiBase, records: Records<NetworkRecord>) {
    this.#api = api;
    this.#records = records;
  }

  static async open(api: ApiBase): Promise<Networks> {
    return new Networks(api, await Records.open(api, "networks"));
  }

  /** What was made here under that name. */
  record(name: string): NetworkRecord | undefined {
    return this.#records.get(name);
  }

  /** What is known of it without asking; never fails. */
  known(name: string): NetworkRecord {
    if (name === "bridge") return this.#joined(name, predefined(name), this.#server.get(DEFAULT));
    if (isPredefined(name)) return predefined(name);
    return this.#joined(name, this.#records.get(name), this.#server.get(name));
  }

  #joined(
    name: string,
    record: NetworkRecord | undefined,
    status: NetworkStatus | undefined,
  ): NetworkRecord {
    const { driver = "bridge", internal = false, labels = {}, subnet, gateway } = status ?? {};
    return {
      ...predefined(name),
      ...{ driver: driver || "bridge", internal, labels: givenLabels(labels) },
      ...record,
      ...subnet && { subnet },
      ...gateway && { gateway },
    };
  }

  async all(signal?: AbortSignal): Promise<NetworkRecord[]> {
    const listed = await listOnServer(this.#api, "networks", signal);
    this.#server = new Map(listed.map((one) => [one.name, one]));
    const names = new Set([
      ...Object.keys(PREDEFINED),
      ...this.#records.values().map(({ name }) => name),
      ...this.#server.keys(),
    ]);
    names.delete(DEFAULT);
    return [...names].map((name) => this.known(name));
  }

  /** By name, by id, or by the beginning of an id. Throws `not_found`. */
  async find(wanted: string, signal?: AbortSignal): Promise<NetworkRecord> {
    const all = await this.all(signal);
    const found = all.find(({ name, id }) => name === wanted || id === wanted) ??
      all.find(({ id }) => wanted.length >= 2 && id.startsWith(wanted));
    if (found) return found;
    throw notFound(`network ${wanted} not found`);
  }

  /**
   * Throws `argument_invalid` for one that is not there: at "not found", docker's clients pull the image and try
   * again.
   */
  async require(names: readonly string[], signal?: AbortSignal): Promise<void> {
    const wanted = names.filter((name) => !isPredefined(name) && !/^(container|ns):/.test(name));
    if (wanted.length === 0) return;
    const there = new Set((await this.all(signal)).map(({ name }) => name));
    const missing = wanted.find((name) => !there.has(name));
    if (missing !== undefined) throw invalid(`network ${missing} not found`);
  }

  async save(record: NetworkRecord): Promise<void> {
    await this.#records.save(record.name, record);
  }

  async remove({ name }: NetworkRecord): Promise<void> {
    // It may have gone with the last container on it, too.
    await removeFromServer(this.#api, "networks", name);
    await this.#records.remove(name);
  }
}
