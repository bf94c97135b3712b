/** What the tests of sessions share: deployments in memory, a clock that a test moves, a server of both. */
import type { DeploySpec } from "../../api/deploy_spec.ts";
import type { DeploymentStatus, InstanceChange, LogFrame } from "../../api/deployment.ts";
import { silent } from "../../base/log.ts";
import { createClient } from "../../client/client.ts";
import type { ApplyOptions, DeployBackend, LogOptions } from "../../deploy/backend.ts";
import { InstanceEvents } from "../../deploy/instance_events.ts";
import { duplexPair } from "../../wire/testing.ts";
import { openAccess } from "../access.ts";
import { Lifecycle } from "../lifecycle.ts";
import { startTestServer, STATUS } from "../testing.ts";
import { DeploySessions } from "./sessions.ts";
import type { Timer } from "../attached/lasting.ts";

/** Timers that fire when the test says so. */
export class ManualTimers {
  #timers = new Set<{ ms: number; work: () => void }>();
  #waiting: { ms: number; resolve: () => void }[] = [];

  readonly after: Timer = (ms, work) => {
    const timer = { ms, work };
    this.#timers.add(timer);
    for (const one of this.#waiting.filter((one) => one.ms === ms)) one.resolve();
    return () => void this.#timers.delete(timer);
  };

  has(ms: number): boolean {
    return [...this.#timers].some((timer) => timer.ms === ms);
  }

  /** Resolves once there is one of so many milliseconds. */
  async armed(ms: number): Promise<void> {
    if (this.has(ms)) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.push({ ms, resolve });
    await promise;
  }

  /** The time of every timer of so many milliseconds is over. */
  async fire(ms: number): Promise<void> {
    await this.armed(ms);
    for (const timer of [...this.#timers]) {
      if (timer.ms !== ms) continue;
      this.#timers.delete(timer);
      timer.work();
    }
  }
}

export class FakeDeployments {
  readonly statuses = new Map<string, DeploymentStatus>();
  readonly applied: DeploySpec[] = [];
  /** Of the last apply. */
  logins: ApplyOptions["logins"];
  readonly deleted: string[] = [];
  /** In the place of an apply that works at once. */
  onApply: ((spec: DeploySpec, signal?: AbortSignal) => Promise<void>) | undefined;
  /** What its log has; who follows it waits for the deployment's end. */
  readonly lines: string[] = [];
  /** Before each status. */
  onStatus: (() => Promise<void>) | undefined;
  /** Before each removal. */
  onDelete: ((name: string) => Promise<void>) | undefined;
  #changed: (() => void)[] = [];
  #asked: (() => void)[] = [];
  #events = new InstanceEvents();

  readonly backend: Partial<DeployBackend> = {
    events: (signal) => this.#events.watch(signal),
    status: async (name) => {
      await this.onStatus?.();
      for (const tell of this.#asked.splice(0)) tell();
      return this.statuses.get(name);
    },
    apply: async (spec, _attachments, { onProgress, logins, signal } = {}) => {
      this.logins = logins;
      onProgress?.(`pulling ${spec.image}`);
      this.applied.push(spec);
      this.#notify();
      await this.onApply?.(spec, signal);
      const ports = spec.ports.map(({ container, protocol }) => (
        { hostIP: "127.0.0.1", host: 1, container, protocol }
      ));
      const instances = [{ id: `${spec.name}-0`, state: "running" as const, restarts: 0 }];
      const deployment = { ...STATUS, name: spec.name, ports, instances };
      this.statuses.set(spec.name, deployment);
      return { action: "created", deployment };
    },
    logs: (name, { follow, signal, since } = {}) => this.#logs(name, { follow, signal, since }),
    // Whatever port it is, it says everything again.
    dial: () => {
      const [theirs, ours] = duplexPair();
      const echo = async () => {
        for (let part = await theirs.read(); part; part = await theirs.read()) {
          await theirs.write(part);
        }
        await theirs.closeWrite();
      };
      echo().catch(() => {/* the connection was reset */});
      return Promise.resolve(ours);
    },
    delete: async (name) => {
      await this.onDelete?.(name);
      this.deleted.push(name);
      const found = this.statuses.delete(name);
      this.#notify();
      return found;
    },
  };

  async *#logs(name: string, { follow, signal, since }: LogOptions): AsyncGenerator<LogFrame[]> {
    const time = "2026-01-01T00:00:00.000000000Z";
    const instance = `${name}-0`;
    if (since && since > new Date(time)) return;
    for (const line of this.lines) yield [{ time, instance, stream: "stdout", line }];
    const isOver = () => this.statuses.get(name)?.state !== "running";
    while (follow && !signal?.aborted && !isOver()) {
      const aborted = Promise.withResolvers<void>();
      const stop = () => aborted.resolve();
      signal?.addEventListener("abort", stop, { once: true });
      await Promise.race([new Promise<void>((tell) => this.#changed.push(tell)), aborted.promise]);
      signal?.removeEventListener("abort", stop);
    }
  }

  /** Its state becomes another one. */
  set(deployment: DeploymentStatus): void {
    this.statuses.set(deployment.name, deployment);
    this.#notify();
    this.#emit(deployment.name, { type: "died", exitCode: 1 });
  }

  /** Somebody else removes it. */
  remove(name: string): void {
    this.statuses.delete(name);
    this.#notify();
    this.#emit(name, { type: "removed" });
  }

  /** Whoever watches has lost the engine. */
  lose(): void {
    this.#events.end();
  }

  #emit(deployment: string, change: InstanceChange): void {
    const instance = `${deployment}-0`;
    const time = new Date().toISOString();
    this.#events.emit({ ...change, time, deployment, instance, container: `${instance}-x` });
  }

  /** Resolves when a status is asked for. */
  asked(): Promise<void> {
    return new Promise((tell) => this.#asked.push(tell));
  }

  #notify(): void {
    for (const tell of this.#changed.splice(0)) tell();
  }

  /** Resolves once it holds; looked at with each apply and removal. */
  async until(holds: () => boolean): Promise<void> {
    while (!holds()) await new Promise<void>((resolve) => this.#changed.push(resolve));
  }
}

export const GRACE_MS = 30_000;

/** A server with sessions on `dataDir`; disposing of it ends it as SIGTERM does. */
export async function startSessionServer(dataDir: string, deployments = new FakeDeployments()) {
  const timers = new ManualTimers();
  const lifecycle = new Lifecycle();
  const backend = () =>
    Promise.resolve({ name: "fake", caps: {}, ...deployments.backend } as DeployBackend);
  const sessions = new DeploySessions({
    dataDir,
    backend,
    lifecycle,
    log: silent,
    graceMs: GRACE_MS,
    after: timers.after,
  });
  await sessions.takeOver();
  /** Who every caller is. */
  const asks = { subject: "anonymous" };
  const server = await startTestServer({
    backend: deployments.backend,
    deps: {
      ...{ lifecycle, sessions },
      access: { ...openAccess, authenticate: () => ({ ...asks, scopes: [] }) },
    },
  });
  return {
    asks,
    base: server.base,
    client: createClient({ server: server.base }),
    timers,
    lifecycle,
    deployments,
    sessions,
    async [Symbol.asyncDispose]() {
      lifecycle.drain();
      await lifecycle.idle(60_000);
      await server[Symbol.asyncDispose]();
    },
  };
}
