/** The containers of this API: one is one deployment of one instance on the server. */
import type { DeploySpec } from "../../api/deploy_spec.ts";
import type { ApplyResult } from "../../api/deployment.ts";
import { sleep } from "../../base/sleep.ts";
import { type DeploySession, openDeploySession } from "../../client/deploy_session.ts";
import {
  applyDeployment,
  deleteDeployment,
  getDeployment,
  getSpec,
  listDeployments,
} from "../../client/deployments.ts";
import { removeManaged, signalDeployment } from "../../client/workloads.ts";
import type { ApiBase } from "../base.ts";
import { conflict, invalid, notFound, unless, unsupported } from "../errors.ts";
import type { Networks } from "../networks/networks.ts";
import { Records } from "../records.ts";
import { Life } from "./life.ts";
import { ForwardedPorts } from "./ports.ts";
import type { ContainerRecord } from "./record.ts";
import { isUp, type Seen, seenOf, stateOf } from "./seen.ts";
import { changeable, networksOf } from "./spec.ts";
import type { Storage } from "./storage.ts";
import type { RemoteTerminal } from "./streams.ts";

/** Milliseconds that sessions may take to end. */
const CLOSE_MS = 15_000;

export type ContainersParts = ApiBase & { readonly networks: Pick<Networks, "record"> };

export class Containers {
  readonly #api: ContainersParts;
  readonly #records: Records<ContainerRecord>;
  /** Ids of containers whose deployment is being made. */
  readonly #making = new Set<string>();
  /** Sessions that hold folders of this machine, by the container's id. */
  readonly #sessions = new Map<string, DeploySession>();
  /** Names of containers that are being made. */
  readonly #names = new Set<string>();
  /** Terminals of attached main processes, by the container's id. */
  readonly terminals = new Map<string, RemoteTerminal>();
  readonly life: Life;
  readonly ports: ForwardedPorts;

  private constructor(api: ContainersParts, records: Records<ContainerRecord>) {
    this.#api = api;
    this.#records = records;
    this.ports = new ForwardedPorts(api);
    this.life = new Life(api, this);
  }

  static async open(api: ContainersParts): Promise<Containers> {
    const containers = new Containers(api, await Records.open(api, "containers"));
    void containers.life.read();
    await containers.#takeUp().catch((error) => api.warn((error as Error).message));
    return containers;
  }

  /** What an earlier process of this API left: ports that were forwarded, and `--rm` of what has ended meanwhile. */
  async #takeUp(): Promise<void> {
    for (const seen of await this.all()) {
      const { record, instance } = seen;
      const failed = (error: unknown) =>
        this.#api.warn(`${record.name}: ${(error as Error).message}`);
      if (isUp(instance)) await this.ports.open(record).catch(failed);
      else if (record.hostConfig.AutoRemove && record.started) {
        await this.remove(seen, { volumes: true }).catch(failed);
      }
    }
  }

  /** Those whose records are kept, without asking the server. */
  get records(): readonly ContainerRecord[] {
    return this.#records.values();
  }

  async all(signal?: AbortSignal): Promise<Seen[]> {
    const statuses = await listDeployments(this.#api.client(signal));
    const byName = new Map(this.records.map((record) => [record.deployment, record]));
    const there = new Set(statuses.map(({ name }) => name));
    for (const record of this.records) {
      // Somebody else removed it.
      if (!there.has(record.deployment) && !this.#making.has(record.id)) await this.forget(record);
    }
    return statuses.flatMap((status) => seenOf(status, byName.get(status.name)));
  }

  /** By id, by the beginning of an id, or by name. Throws `not_found` in docker's words. */
  async find(wanted: string, signal?: AbortSignal): Promise<Seen> {
    const name = wanted.replace(/^\//, "");
    const known = this.#pick(this.records, name);
    if (known) {
      const status = await getDeployment(this.#api.client(signal), known.deployment)
        .catch(unless("not_found"));
      if (status) return seenOf(status, known)[0];
    }
    const all = await this.all(signal);
    const record = this.#pick(all.map(({ record }) => record), name);
    const found = record && all.find((seen) => seen.record === record);
    if (found) return found;
    throw notFound(`No such container: ${wanted}`);
  }

  #pick(records: readonly ContainerRecord[], wanted: string): ContainerRecord | undefined {
    const exact = records.find(({ id, name }) => id === wanted || name === wanted);
    if (exact || !/^[0-9a-f]+$/.test(wanted)) return exact;
    const beginning = records.filter(({ id }) => id.startsWith(wanted));
    if (beginning.length > 1) {
      throw invalid(`multiple IDs found with provided prefix: ${wanted}`);
    }
    return beginning[0];
  }

  save(record: ContainerRecord): Promise<void> {
    // One that svc's own clients made is theirs.
    return record.instance === undefined
      ? this.#records.save(record.id, record)
      : Promise.resolve();
  }

  /** Takes the name until the result is disposed of. Throws `conflict` in docker's words where it is taken. */
  async reserve(name: string, signal: AbortSignal): Promise<Seen[] & Disposable> {
    const all = await this.all(signal);
    const other = all.find(({ record }) => record.name === name)?.record;
    if (other || this.#names.has(name)) {
      throw conflict(
        `Conflict. The container name "/${name}" is already in use by container "${
          other?.id ?? "that is being made"
        }". You have to remove (or rename) that container to be able to reuse that name.`,
      );
    }
    this.#names.add(name);
    return Object.assign(all, { [Symbol.dispose]: () => void this.#names.delete(name) });
  }

  /** Makes the container on the server; it waits for its start. Returns what the server warns of. */
  async make(record: ContainerRecord, spec: DeploySpec): Promise<string[]> {
    this.#making.add(record.id);
    try {
      const { deployment } = await this.#apply(record, spec, record.source.binds);
      await this.save(record);
      return deployment.warnings;
    } finally {
      this.#making.delete(record.id);
    }
  }

  /** Makes it anew on other networks, where that loses nothing. Throws `unsupported`. */
  async changeNetworks(seen: Seen, endpoints: ContainerRecord["endpoints"]): Promise<void> {
    const { record } = seen;
    const isNew = stateOf(seen) === "created" && record.instance === undefined;
    const why = !isNew ? "it was started" : record.session ? "it has folders of this machine" : "";
    if (why) {
      throw unsupported(
        `Cannot change the networks of ${record.name}: ${why}`,
        "make it again as it is to be",
      );
    }
    const client = this.#api.client();
    const network = (name: string) => this.#api.networks.record(name);
    const spec = {
      ...await getSpec(client, record.deployment),
      // The server's spec is without updates.
      ...changeable(record.hostConfig),
      networks: networksOf({ record: { ...record, endpoints }, network }),
    };
    const { name } = spec;
    await applyDeployment(client, { name, spec }, () => {}, { until: "created" });
    await this.save(Object.assign(record, { endpoints }));
  }

  /** Folders of this machine: bound by a server that is here and may, else held by a session. */
  async #apply(
    record: ContainerRecord,
    spec: DeploySpec,
    binds: Storage["binds"],
  ): Promise<ApplyResult> {
    const client = this.#api.client();
    const { name } = spec;
    const created = (mounts: Storage["binds"]) =>
      applyDeployment(client, { name, spec: { ...spec, mounts } }, () => {}, { until: "created" });
    if (binds.length === 0) return await created([]);
    for (const { source } of binds) await makeFolder(source);
    if (this.#api.isLocal) {
      try {
        return await created(binds);
      } catch (error) {
        unless("denied", "not_found")(error);
      }
    }
    record.session = true;
    return await this.#hold(record, spec, binds);
  }

  async #hold(record: ContainerRecord, spec: DeploySpec, binds: Storage["binds"]) {
    const { openMounts } = await import("../../client/mounts/open.ts");
    const offered = openMounts(
      binds.map(({ source, target, readOnly = false }) => ({ source, target, readOnly })),
    );
    const body = { name: spec.name, spec, mounts: offered.mounts };
    const { signal } = this.#api;
    const session = openDeploySession(this.#api.client(signal), body, {
      ...{ signal, takes: offered.takes, until: "created" },
      onLost: () =>
        this.#api.warn(`the connection that holds ${record.name} is lost; trying again`),
    });
    this.#sessions.set(record.id, session);
    session.closed.catch((error) => {
      if (!signal.aborted) this.#api.warn(`${record.name}: ${(error as Error).message}`);
    }).finally(() => {
      offered[Symbol.dispose]();
      this.#sessions.delete(record.id);
    });
    const result = await Promise.race([session.applied, session.closed]);
    if (typeof result !== "string") return result;
    throw conflict(`Cannot create ${record.name}: it was removed meanwhile`);
  }

  /** Removes the container, killed if it runs, and the volumes that have no name of their own. */
  async remove(
    { record, instance }: Pick<Seen, "record" | "instance">,
    { volumes }: { volumes: boolean },
  ): Promise<void> {
    const client = this.#api.client();
    const session = this.#sessions.get(record.id);
    this.life.expectRemoval(record.id);
    // Nothing is waited for.
    const killed = isUp(instance)
      ? signalDeployment(client, record.deployment, "KILL").catch(() => {/* it has ended */})
      : undefined;
    if (session) {
      session.end();
      await session.closed;
    } else {
      await deleteDeployment(client, record.deployment).catch(unless("not_found"));
    }
    await killed;
    for (const name of volumes ? record.anonymous : []) {
      await removeManaged(client, "volumes", name).catch(() => {/* it has gone, or is used */});
    }
    await this.forget(record);
  }

  /** The container is no more. */
  async forget(record: ContainerRecord): Promise<void> {
    await this.ports.close(record.id);
    this.terminals.delete(record.id);
    if (record.instance === undefined) await this.#records.remove(record.id);
    this.life.gone(record);
  }

  async close(): Promise<void> {
    await this.ports.closeAll();
    for (const session of this.#sessions.values()) session.end();
    const late = new AbortController();
    const closed = Promise.allSettled([...this.#sessions.values()].map(({ closed }) => closed));
    // The server removes what is left when the sessions' grace period is over.
    await Promise.race([closed, sleep(CLOSE_MS, late.signal).catch(() => {})]);
    late.abort();
  }
}

/** docker makes the folder of a bind that is not there. */
async function makeFolder(path: string): Promise<void> {
  try {
    await Deno.stat(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) return;
    await Deno.mkdir(path, { recursive: true });
  }
}
