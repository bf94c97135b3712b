/** What becomes of containers: the server's events, told as docker's, and those who wait for an end. */
import type { InstanceEvent } from "../../api/deployment.ts";
import { sleep } from "../../base/sleep.ts";
import { waitFor } from "../../base/wait_for.ts";
import { getDeployment } from "../../client/deployments.ts";
import { readEvents } from "../../client/workloads.ts";
import type { ApiBase } from "../base.ts";
import { isCode } from "../errors.ts";
import type { ContainerRecord } from "./record.ts";
import { exitCodeOf, isUp, type Seen, seenOf } from "./seen.ts";

/** Milliseconds before a broken stream of events is opened again. */
const PAUSE_MS = 250;
/** Milliseconds after which a state is read again without an event. */
const AGAIN_MS = 2000;
/** Milliseconds that the readers of a container's last output may take before it is removed. */
const LAST_OUTPUT_MS = 10_000;

export type WaitCondition = "not-running" | "next-exit" | "removed";

/** Attributes of the container's events. */
export const attributesOf = ({ config, image, name }: ContainerRecord): Record<string, string> => ({
  ...config.Labels,
  ...{ image, name },
});

interface Waiter {
  event(event: InstanceEvent): void;
  gone(): void;
}

/** The containers, whose events are told. */
interface Owner {
  readonly records: readonly ContainerRecord[];
  readonly ports: { close(id: string): Promise<void> };
  find(id: string, signal?: AbortSignal): Promise<Seen>;
  remove(seen: Pick<Seen, "record" | "instance">, what: { volumes: boolean }): Promise<void>;
  forget(record: ContainerRecord): Promise<void>;
}

export class Life {
  readonly #api: ApiBase;
  readonly #containers: Owner;
  readonly #waiters = new Map<string, Set<Waiter>>();
  /** Readers of output, by the container's id: `--rm` waits for them. */
  readonly #readers = new Map<string, Set<Promise<unknown>>>();
  readonly #removing = new Set<string>();
  readonly #lastCodes = new Map<string, number>();

  constructor(api: ApiBase, containers: Owner) {
    this.#api = api;
    this.#containers = containers;
  }

  /** Reads the server's events to the end of this API. */
  async read(): Promise<void> {
    const { signal } = this.#api;
    while (!signal.aborted) {
      try {
        for await (const event of readEvents(this.#api.client(signal))) this.#see(event);
      } catch {
        // Who waits reads the state, which tells what is wrong.
      }
      await sleep(PAUSE_MS, signal).catch(() => {/* asked for above */});
    }
  }

  #see(event: InstanceEvent): void {
    const { deployment } = event;
    const record = this.#containers.records.find((one) => one.deployment === deployment);
    if (!record) return;
    for (const waiter of [...this.#waiters.get(record.id) ?? []]) waiter.event(event);
    if (event.type === "removed") return void this.#checkGone(record);
    if (event.type === "died") this.#died(record, event.exitCode);
    const action = ACTIONS[event.type];
    if (!action) return;
    this.tell(record, action, event.type === "died" ? { exitCode: `${event.exitCode}` } : {});
  }

  /** Tells an event of the container. */
  tell(record: ContainerRecord, action: string, more: Record<string, string> = {}): void {
    this.#api.events.tell("container", action, record.id, { ...attributesOf(record), ...more });
  }

  #died(record: ContainerRecord, exitCode: number): void {
    this.#lastCodes.set(record.id, exitCode);
    void this.#containers.ports.close(record.id);
    if (record.hostConfig.AutoRemove) {
      this.#removeSoon(record).catch((error) =>
        this.#api.warn(`--rm: ${(error as Error).message}`)
      );
    }
  }

  async #removeSoon(record: ContainerRecord): Promise<void> {
    const late = new AbortController();
    const readers = Promise.allSettled([...this.#readers.get(record.id) ?? []]);
    await Promise.race([readers, sleep(LAST_OUTPUT_MS, late.signal).catch(() => {})]);
    late.abort();
    if (this.#removing.has(record.id)) return;
    await this.#containers.remove({ record }, { volumes: true });
  }

  /** `--rm` waits until this has settled. */
  reading(id: string, work: Promise<unknown>): void {
    const all = this.#readers.get(id) ?? new Set();
    this.#readers.set(id, all.add(work));
    work.catch(() => {}).finally(() => all.delete(work));
  }

  /** The server's next word of the removal is expected. */
  expectRemoval(id: string): void {
    this.#removing.add(id);
  }

  async #checkGone(record: ContainerRecord): Promise<void> {
    if (this.#removing.has(record.id)) return;
    try {
      await getDeployment(this.#api.client(this.#api.signal), record.deployment);
    } catch (error) {
      if (isCode(error, "not_found") && !this.#removing.has(record.id)) {
        await this.#containers.forget(record);
      }
    }
  }

  /** Called once the container is no more. */
  gone(record: ContainerRecord): void {
    this.tell(record, "destroy");
    for (const waiter of [...this.#waiters.get(record.id) ?? []]) waiter.gone();
    this.#removing.delete(record.id);
    this.#readers.delete(record.id);
    this.#lastCodes.delete(record.id);
  }

  #listen(id: string, waiter: Waiter): () => void {
    const all = this.#waiters.get(id) ?? new Set();
    this.#waiters.set(id, all.add(waiter));
    return () => {
      all.delete(waiter);
      if (all.size === 0) this.#waiters.delete(id);
    };
  }

  /** Resolves with the exit code once the condition is met. */
  async exit(seen: Seen, condition: WaitCondition, signal: AbortSignal): Promise<number> {
    const { record } = seen;
    const ended = condition === "not-running" && !isUp(seen.instance) &&
      seen.status.state !== "pending";
    if (ended) return exitCodeOf(seen);
    const { promise, resolve } = Promise.withResolvers<number>();
    let code: number | undefined = this.#lastCodes.get(record.id);
    const release = this.#listen(record.id, {
      event: (event) => {
        if (event.type !== "died") return;
        code = event.exitCode;
        if (condition !== "removed") resolve(code);
      },
      gone: () => resolve(code ?? 0),
    });
    // An event may be lost with the stream that it was on.
    const before = seen.instance?.finishedAt;
    const timer = setInterval(() => {
      this.#containers.find(record.id, signal).then((now) => {
        const other = now.instance?.finishedAt !== before && !isUp(now.instance);
        if (condition !== "removed" && other) resolve(exitCodeOf(now));
      }, () => {/* it has gone, which is told, or the server is away */});
    }, AGAIN_MS);
    try {
      return await waitFor(promise, signal);
    } finally {
      clearInterval(timer);
      release();
    }
  }

  /** Resolves once the container has been started again since it was seen, or has gone. */
  async started({ record, instance: before }: Seen, signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const release = this.#listen(record.id, {
      event: ({ type }) => {
        if (type === "started" || type === "died") resolve();
      },
      gone: () => resolve(),
    });
    try {
      const status = await getDeployment(this.#api.client(signal), record.deployment);
      const [{ instance }] = seenOf(status, record);
      if (instance && instance.startedAt !== before?.startedAt) return;
      await waitFor(promise, signal);
    } finally {
      release();
    }
  }
}

const ACTIONS: Partial<Record<InstanceEvent["type"], string>> = {
  started: "start",
  died: "die",
  stopped: "stop",
  oom: "oom",
  healthy: "health_status: healthy",
  unhealthy: "health_status: unhealthy",
};
